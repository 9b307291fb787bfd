package builtin

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// FuzzEveryObject decodes arbitrary data over the sample of any kind. Setting the defaults a second
// time changes nothing. Validation never panics, even for objects without defaults. A valid object
// is unchanged after a round trip through each encoding.
func FuzzEveryObject(f *testing.F) {
	table, all := scheme.New(), All(Config{})
	set, err := samples.New(table)
	if err != nil {
		f.Fatal(err)
	}
	var kinds []*scheme.Kind
	for _, kind := range table.Kinds() {
		if kind.Virtual {
			continue
		}
		which := uint8(len(kinds))
		kinds = append(kinds, kind)
		for _, body := range []string{`{}`, `{"spec":null}`, `{"spec":{},"metadata":{"name":"","generateName":"x"}}`} {
			f.Add(which, []byte(body))
		}
		whole, err := json.Marshal(set.Of(kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(which, whole)
		if change, ok := set.Change(kind); ok {
			f.Add(which, []byte(`{"spec":`+string(change.Spec)+`,"status":`+string(change.Status)+`}`))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		kind := kinds[int(which)%len(kinds)]
		s, obj := all[kind.GroupVersionKind], set.Of(kind)
		if err := json.Unmarshal(body, obj); err != nil {
			return
		}
		obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
		obj.SetManagedFields(nil)
		s.Validate(copied(t, obj))
		if s.Update.Validate != nil {
			s.Update.Validate(copied(t, obj), set.Of(kind))
		}
		if s.Default != nil {
			s.Default(obj)
			again := copied(t, obj)
			s.Default(again)
			if !equality.Semantic.DeepEqual(obj, again) {
				t.Fatalf("setting the defaults of a %s twice: got\n%+v\nwant\n%+v", kind.Kind, again, obj)
			}
		}
		for _, sub := range s.Subresources {
			next := copied(t, obj)
			if sub.Prepare != nil {
				sub.Prepare(next, set.Of(kind))
			}
			if sub.Validate != nil {
				sub.Validate(next, set.Of(kind))
			}
		}
		if s.PrepareForCreate != nil {
			s.PrepareForCreate(obj)
		}
		if len(s.Validate(obj)) > 0 {
			return
		}
		for _, info := range table.Codecs().SupportedMediaTypes() {
			data, err := runtime.Encode(info.Serializer, obj)
			if err != nil {
				t.Fatalf("%s as %s: %v", kind.Kind, info.MediaType, err)
			}
			back := kind.New()
			if _, _, err := info.Serializer.Decode(data, nil, back); err != nil {
				t.Fatalf("%s as %s: %v", kind.Kind, info.MediaType, err)
			}
			back.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
			if s.Default != nil {
				s.Default(back)
			}
			if !equality.Semantic.DeepEqual(obj, back) {
				t.Fatalf("a %s differs after a round trip as %s:\n%+v\n%+v", kind.Kind, info.MediaType, obj, back)
			}
		}
	})
}

func copied(t *testing.T, obj scheme.Object) scheme.Object {
	t.Helper()
	c, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		t.Fatalf("a copy of %T is not an object", obj)
	}
	return c
}
