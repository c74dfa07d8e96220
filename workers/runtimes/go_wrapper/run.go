// Calls the script's function and writes down what came of it. Part of every compiled Go script.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

type failure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

var errorType = reflect.TypeFor[error]()

// call runs the function with the arguments of args.json, by the names of its parameters. Files are named from the
// folder in which the job began: the script may move to another one.
func call(function any, names []string) {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	result, failed := returned(reflect.ValueOf(function), names)
	file := "result.json"
	if failed != nil {
		file, result = "error.json", failed
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		text.Reset()
		file = "error.json"
		encoder.Encode(failure{"InvalidResult", "The result cannot be written as JSON: " + err.Error()})
	}
	if err := os.WriteFile(filepath.Join(folder, file), text.Bytes(), 0o644); err != nil {
		panic(err)
	}
	if file == "error.json" {
		os.Exit(1)
	}
}

func returned(function reflect.Value, names []string) (any, *failure) {
	arguments, failed := read(function.Type(), names)
	if failed != nil {
		return nil, failed
	}
	var values []reflect.Value
	if function.Type().IsVariadic() {
		values = function.CallSlice(arguments)
	} else {
		values = function.Call(arguments)
	}
	if last := len(values) - 1; last >= 0 && values[last].Type().Implements(errorType) {
		if err, isError := values[last].Interface().(error); isError && !isNil(values[last]) {
			return nil, &failure{nameOf(err), err.Error()}
		}
		values = values[:last]
	}
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) == 1 {
		return values[0].Interface(), nil
	}
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value.Interface()
	}
	return all, nil
}

func read(signature reflect.Type, names []string) ([]reflect.Value, *failure) {
	content, err := os.ReadFile("args.json")
	given := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(content, &given)
	}
	if err != nil {
		return nil, &failure{"ArgumentError", "The arguments cannot be read: " + err.Error()}
	}
	arguments := make([]reflect.Value, signature.NumIn())
	for i := range arguments {
		place := reflect.New(signature.In(i))
		if value, isGiven := given[names[i]]; isGiven && names[i] != "" && names[i] != "_" {
			if err := json.Unmarshal(value, place.Interface()); err != nil {
				message := fmt.Sprintf("The argument %s cannot be read as %s: %s", names[i], signature.In(i), err)
				return nil, &failure{"ArgumentError", message}
			}
		}
		arguments[i] = place.Elem()
	}
	return arguments, nil
}

func isNil(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return value.IsNil()
	}
	return false
}

// nameOf is the name of the script's own error type; Error for those of errors.New and fmt.Errorf.
func nameOf(err error) string {
	kind := reflect.TypeOf(err)
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind.Name() == "" || kind.PkgPath() == "errors" || kind.PkgPath() == "fmt" {
		return "Error"
	}
	return kind.Name()
}
