// Stands for packages that build.mjs leaves out (UNUSED): what the others import of them. Some are called while loading.
const nothing = () => [];
export { nothing as getTokenAtPosition, nothing as getTypeInfo, nothing as getAutocompleteSuggestions, nothing as getDiagnostics, nothing as validateSchema, nothing as linter, nothing as html };
