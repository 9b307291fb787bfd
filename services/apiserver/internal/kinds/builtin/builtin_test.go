package builtin

import (
	"math/rand"
	"slices"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestEveryServedKindHasADefinitionAndItsSubresources(t *testing.T) {
	all := All(Config{})
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			continue
		}
		s := all[kind.GroupVersionKind]
		if s == nil {
			t.Errorf("%s has no definition", kind.GroupVersionKind)
			continue
		}
		for _, sub := range kind.Subresources {
			if _, ok := s.Subresources[sub.Name]; !ok && !sub.Special(kind) {
				t.Errorf("%s has no rules for %s", kind.Kind, sub.Name)
			}
		}
		if s.Validate == nil || s.Update.Validate == nil {
			t.Errorf("%s is not validated", kind.Kind)
		}
		for _, label := range s.FieldLabels {
			if _, ok := s.Fields(kind.New())[label]; !ok {
				t.Errorf("%s has no value for the field %s", kind.Kind, label)
			}
		}
	}
}

// filler fills objects at random, with values that their encodings can represent.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(14).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1e6)-10, resource.DecimalSI)
		},
		func(p *intstr.IntOrString, c randfill.Continue) {
			if c.Bool() {
				*p = intstr.FromInt32(c.Int31n(70000) - 10)
			} else {
				*p = intstr.FromString(c.String(0))
			}
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1e9), 0).Time)
		},
		func(e *runtime.RawExtension, _ randfill.Continue) { e.Raw = []byte(`{"a":1}`) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{}`)) },
	)
}

// checkKind checks, for any object, that setting the defaults again changes nothing, that nothing
// panics, and that an update never changes what the system wrote.
func checkKind(t *testing.T, kind *scheme.Kind, s *kinds.Definition, seed int64) {
	t.Helper()
	obj, old := kind.New(), kind.New()
	f := filler(seed)
	f.Fill(obj)
	f.Fill(old)
	copyOf := func(o scheme.Object) scheme.Object { return o.DeepCopyObject().(scheme.Object) }
	if s.Default != nil {
		s.Default(obj)
		once := copyOf(obj)
		s.Default(obj)
		if !apiequality.Semantic.DeepEqual(once, obj) {
			t.Fatalf("%s, seed %d: setting the defaults twice differs from once", kind.Kind, seed)
		}
		s.Default(old)
	}
	before := copyOf(old)
	changes := []kinds.Change{s.Update}
	for _, change := range s.Subresources {
		changes = append(changes, change)
	}
	for _, change := range changes {
		next := copyOf(obj)
		if change.Prepare != nil {
			change.Prepare(next, old)
		}
		if change.Validate != nil {
			change.Validate(next, old)
		}
	}
	if s.PrepareForCreate != nil {
		s.PrepareForCreate(obj)
	}
	s.Validate(obj)
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	if s.Warnings != nil {
		s.Warnings(obj)
	}
	if s.ToStored != nil {
		stored := kindtest.Convert[scheme.Object](t, s.ToStored, obj)
		if back := kindtest.Convert[scheme.Object](t, s.FromStored, stored); !apiequality.Semantic.DeepEqual(back, withKind(kind, obj)) {
			t.Fatalf("%s, seed %d: the object differs after being stored", kind.Kind, seed)
		}
	}
	if !apiequality.Semantic.DeepEqual(before, old) {
		t.Fatalf("%s, seed %d: the old object was changed", kind.Kind, seed)
	}
}

func withKind(kind *scheme.Kind, obj scheme.Object) scheme.Object {
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	return obj
}

func TestAnyObject(t *testing.T) {
	all := All(Config{})
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			continue
		}
		t.Run(kind.Group+"."+kind.Kind, func(t *testing.T) {
			for seed := range int64(60) {
				checkKind(t, kind, all[kind.GroupVersionKind], seed)
			}
		})
	}
}

func FuzzAnyObject(f *testing.F) {
	kinds, all := scheme.New().Kinds(), All(Config{})
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind *scheme.Kind) bool { return kind.Virtual })
	f.Add(int64(1), uint8(4))
	f.Fuzz(func(t *testing.T, seed int64, which uint8) {
		kind := kinds[int(which)%len(kinds)]
		checkKind(t, kind, all[kind.GroupVersionKind], seed)
	})
}
