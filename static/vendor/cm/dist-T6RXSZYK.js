import{a,b,c,d}from"./chunk-GJZ7OJZG.js";import"./chunk-PFR35AX2.js";import"./chunk-HSYVEGOK.js";export{d as css,b as cssCompletionSource,c as cssLanguage,a as defineCSSCompletionSource};
