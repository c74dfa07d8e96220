import{a,b,c,d}from"./chunk-ZSONDAIT.js";import"./chunk-MMHOW4CS.js";import"./chunk-7JAUTSS2.js";export{d as css,b as cssCompletionSource,c as cssLanguage,a as defineCSSCompletionSource};
