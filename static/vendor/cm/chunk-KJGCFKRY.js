var t=()=>[];export{t as a};
