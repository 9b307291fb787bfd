package quantity

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Body returns an error if a serializer would parse a costly quantity in a body. into is an object of the type
// into which the body is to be decoded; it is not changed. With an error, found is the kind that the body says it has, if it
// says so.
func Body(
	data []byte, by runtime.SerializerInfo, kind schema.GroupVersionKind, into runtime.Object,
) (found *schema.GroupVersionKind, err error) {
	decode := func(data []byte) (err error) {
		_, found, err = by.Serializer.Decode(data, &kind, Empty(into))
		return err //nolint:wrapcheck // The caller words it.
	}
	switch by.MediaType {
	case runtime.ContentTypeJSON:
		err = JSON(data, decode)
	case runtime.ContentTypeYAML:
		err = YAML(data, decode)
	case runtime.ContentTypeProtobuf:
		err = Protobuf(data, decode)
	default:
		err = fmt.Errorf("the quantities in %s cannot be bounded", by.MediaType)
	}
	return found, err
}

// Empty returns an empty object of a type.
func Empty(of runtime.Object) runtime.Object {
	made, ok := reflect.TypeAssert[runtime.Object](reflect.New(reflect.TypeOf(of).Elem()))
	if !ok {
		return of.DeepCopyObject() // Never: a pointer to the same type has the same methods.
	}
	return made
}
