package upstream

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// site is a place in an object that a mutation can change.
type site struct {
	value reflect.Value
	name  string
	path  string
}

// sites returns all places of an object. Those within maps are not places of their own.
func sites(obj any) []site {
	var found []site
	collect(reflect.ValueOf(obj).Elem(), "", "", &found)
	return found
}

func collect(v reflect.Value, name, path string, found *[]site) {
	if path != "" && v.CanSet() {
		*found = append(*found, site{v, name, path})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !whole(v.Type().Elem()) {
			collectFields(v.Elem(), path, found)
		}
	case reflect.Struct:
		if !whole(v.Type()) {
			collectFields(v, path, found)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			collect(v.Index(i), name, path+"[]", found)
		}
	}
}

func collectFields(v reflect.Value, path string, found *[]site) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || excluded(v.Type(), f) {
			continue
		}
		at := path
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			at = strings.TrimPrefix(path+"."+tag, ".")
		}
		collect(v.Field(i), f.Name, at, found)
	}
}

var metaType = reflect.TypeFor[metav1.ObjectMeta]()

// excluded reports whether nothing changes a field: the type of an object, the metadata that the
// registry itself sets or compares with the URL, and what later issues bring.
func excluded(parent reflect.Type, f reflect.StructField) bool {
	if parent == metaType {
		switch f.Name {
		case "Name", "GenerateName", "Labels", "Annotations", "OwnerReferences", "Finalizers":
			return false
		}
		return true
	}
	of := f.Type
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of == reflect.TypeFor[metav1.TypeMeta]() || slices.Contains(later(), of)
}

// Mutate changes one random place of an object. Creation may change the name as well.
func (g *Values) Mutate(obj any, renames bool) {
	for range 100 {
		all := sites(obj)
		s := all[g.random.IntN(len(all))]
		metadata := s.path == "metadata" || strings.HasPrefix(s.path, "metadata.")
		if metadata && g.random.IntN(4) > 0 || !renames && (s.path == "metadata.name" || s.path == "metadata") {
			continue
		}
		g.change(s)
		return
	}
}

func (g *Values) change(s site) {
	v := s.value
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			g.changeSlice(v, s.name)
			return
		}
	case reflect.Map:
		if v.Len() > 0 && g.random.IntN(3) > 0 {
			g.changeMap(v, s.name)
			return
		}
	case reflect.Struct:
		if !whole(v.Type()) && !v.IsZero() && g.random.IntN(4) > 0 {
			g.fillStruct(v, 2) // Adds to what is there.
			return
		}
	}
	if !v.IsZero() && g.random.IntN(4) == 0 {
		v.SetZero()
		return
	}
	g.fill(v, s.name, 1)
}

func (g *Values) changeSlice(v reflect.Value, name string) {
	at := g.random.IntN(v.Len())
	switch g.random.IntN(5) {
	case 0:
		v.SetZero()
	case 1: // Without one.
		v.Set(reflect.AppendSlice(v.Slice3(0, at, at), v.Slice(at+1, v.Len())))
	case 2: // One twice.
		v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), deepCopy(v.Index(at))))
	default:
		added := reflect.New(v.Type().Elem()).Elem()
		g.fill(added, name, 2)
		v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), added))
	}
}

func (g *Values) changeMap(v reflect.Value, name string) {
	present := v.MapKeys()
	if g.random.IntN(3) == 0 {
		least := present[0]
		for _, key := range present {
			if key.String() < least.String() {
				least = key
			}
		}
		v.SetMapIndex(least, reflect.Value{})
		return
	}
	added := reflect.New(v.Type()).Elem()
	g.fillMap(added, name, 2)
	for _, key := range added.MapKeys() {
		v.SetMapIndex(key, added.MapIndex(key))
	}
}

// Boundaries returns functions that each give a place of an object one of the values at the limits
// of what is allowed. Each must be called with a fresh copy of the object.
func Boundaries(obj any, renames bool) []func(obj any) {
	var found []func(any)
	for i, s := range sites(obj) {
		if !renames && (s.path == "metadata.name" || s.path == "metadata") {
			continue
		}
		for _, set := range limits(s.value) {
			found = append(found, func(obj any) { set(sites(obj)[i].value) })
		}
	}
	return found
}

func limits(v reflect.Value) []func(reflect.Value) {
	empty := func(v reflect.Value) { v.SetZero() }
	to := func(values ...any) []func(reflect.Value) {
		var found []func(reflect.Value)
		for _, value := range values {
			found = append(found, func(v reflect.Value) { v.Set(reflect.ValueOf(value).Convert(v.Type())) })
		}
		return append(found, empty)
	}
	switch v.Type() {
	case quantityType:
		return to(resource.MustParse("-1"), resource.MustParse("0.5m"), resource.MustParse("1Gi"))
	case intOrStrType:
		return to(intstr.FromInt32(-1), intstr.FromInt32(65536), intstr.FromString("101%"), intstr.FromString("x"))
	case timeType, microType, durationType, rawType, fieldsType:
		return to()
	}
	switch v.Kind() {
	case reflect.String:
		return to("x", "Bad_Name", "a/b", "-a", strings.Repeat("a", 64), strings.Repeat("a", 254))
	case reflect.Int32:
		return to(1, -1, 65536, math.MaxInt32)
	case reflect.Int64, reflect.Int:
		return to(1, -1, 65536, math.MaxInt32)
	case reflect.Bool:
		return to(true)
	case reflect.Pointer:
		return []func(reflect.Value){empty, func(v reflect.Value) { v.Set(reflect.New(v.Type().Elem())) }}
	case reflect.Map:
		return []func(reflect.Value){empty}
	case reflect.Struct:
		return []func(reflect.Value){empty}
	case reflect.Slice:
		if v.Len() == 0 {
			return []func(reflect.Value){func(v reflect.Value) { v.Set(reflect.MakeSlice(v.Type(), 1, 1)) }}
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []func(reflect.Value){empty}
		}
		return []func(reflect.Value){empty, func(v reflect.Value) {
			v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), deepCopy(v.Index(0))))
		}}
	}
	return nil
}

// deepCopy copies a value by its JSON form, so that two places never share memory.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type())
	data, err := json.Marshal(v.Interface())
	if err == nil {
		err = json.Unmarshal(data, out.Interface())
	}
	if err != nil {
		return v // A value that has no JSON form is one that no client can send.
	}
	return out.Elem()
}
