package strategy

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
)

// generic is the strategy of a kind about which nothing more is known than the shape of its Go
// type: its metadata is checked, what is not metadata nor status counts generations, and the
// status, if there is one, is written through its subresource only.
func generic[T scheme.Object](namespaced bool, name apivalidation.ValidateNameFunc) *Strategy {
	validate := func(obj T) field.ErrorList {
		return apivalidation.ValidateObjectMetaAccessor(obj, namespaced, name, field.NewPath("metadata"))
	}
	validateUpdate := func(obj, _ T) field.ErrorList { return validate(obj) }
	o := of[T]{
		Create: func(obj T) {
			if status, ok := statusOf(obj); ok {
				status.SetZero()
			}
			obj.SetGeneration(1)
		},
		Validate: validate,
		Update: change[T]{
			Prepare: func(obj, old T) {
				before := old.DeepCopyObject()
				if status, ok := statusOf(obj); ok {
					was, _ := statusOf(before)
					status.Set(was)
				}
				if !sameContent(obj, old) {
					obj.SetGeneration(old.GetGeneration() + 1)
				}
			},
			Validate: validateUpdate,
		},
	}
	if _, ok := statusOf(reflect.New(reflect.TypeFor[T]().Elem()).Interface()); ok {
		o.Subresources = map[string]change[T]{"status": {
			Prepare: func(obj, old T) {
				status, _ := statusOf(obj.DeepCopyObject())
				whole, before := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
				for i := range whole.NumField() {
					if name := whole.Type().Field(i).Name; name != "ObjectMeta" && name != "TypeMeta" {
						whole.Field(i).Set(before.Field(i))
					}
				}
				now, _ := statusOf(obj)
				now.Set(status)
			},
			Validate: validateUpdate,
		}}
	}
	return o.strategy()
}

// statusOf is the field Status of the struct that obj points to.
func statusOf(obj any) (reflect.Value, bool) {
	value := reflect.ValueOf(obj).Elem().FieldByName("Status")
	return value, value.IsValid()
}

// sameContent compares what of two objects of one type is neither metadata nor status.
func sameContent(a, b any) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		switch x.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !apiequality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}
