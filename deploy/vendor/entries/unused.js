// Stands for packages that cm6-graphql imports for what we do not use (a schema's completions and checks): the grammar
// alone is a quarter of the whole. build.mjs lists them.
export const getTokenAtPosition = undefined, getTypeInfo = undefined, getAutocompleteSuggestions = undefined, getDiagnostics = undefined, validateSchema = undefined;
