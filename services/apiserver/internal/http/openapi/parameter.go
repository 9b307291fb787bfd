package openapi

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
)

// parameter is one parameter of a path or an operation.
type parameter struct {
	name, description string
	kind              common.ParameterKind
	dataType          string
	required          bool
}

// Name returns the parameter's name.
func (p parameter) Name() string { return p.name }

// Description returns what the parameter is for.
func (p parameter) Description() string { return p.description }

// Required reports whether the parameter is mandatory.
func (p parameter) Required() bool { return p.required }

// Kind returns where the parameter is given: in the path, the query or the body.
func (p parameter) Kind() common.ParameterKind { return p.kind }

// DataType returns the parameter's type.
func (p parameter) DataType() string { return p.dataType }

// AllowMultiple reports whether the parameter may be repeated.
func (p parameter) AllowMultiple() bool { return false }

func inPath(name, description string) parameter {
	return parameter{name: name, description: description, kind: common.PathParameterKind, dataType: "string", required: true}
}

func inBody(required bool) parameter {
	return parameter{name: "body", kind: common.BodyParameterKind, dataType: "object", required: required}
}

func pretty() parameter {
	return parameter{
		name: "pretty", kind: common.QueryParameterKind, dataType: "string",
		description: "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or " +
			"command-line HTTP tool (curl and wget).",
	}
}

// documented is an option struct of metav1, which describes its own fields.
type documented interface{ SwaggerDoc() map[string]string }

// fromOptions returns a query parameter for each field of an option struct.
func fromOptions(options documented) []common.Parameter {
	docs := options.SwaggerDoc()
	var list []common.Parameter
	structType := reflect.TypeOf(options)
	for field := range structType.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || name == "" {
			continue
		}
		fieldType := field.Type
		for fieldType.Kind() == reflect.Pointer || fieldType.Kind() == reflect.Slice {
			fieldType = fieldType.Elem()
		}
		dataType := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int64: "integer", reflect.String: "string"}[fieldType.Kind()]
		if dataType == "" {
			continue // preconditions are sent in the body
		}
		list = append(list, parameter{name: name, description: docs[name], kind: common.QueryParameterKind, dataType: dataType})
	}
	return list
}

func forGet() []common.Parameter    { return fromOptions(metav1.GetOptions{}) }
func forList() []common.Parameter   { return fromOptions(metav1.ListOptions{}) }
func forCreate() []common.Parameter { return fromOptions(metav1.CreateOptions{}) }
func forUpdate() []common.Parameter { return fromOptions(metav1.UpdateOptions{}) }
func forPatch() []common.Parameter  { return fromOptions(metav1.PatchOptions{}) }

// forDelete leaves out what must not be a query parameter twice.
func forDelete() []common.Parameter { return fromOptions(metav1.DeleteOptions{}) }
