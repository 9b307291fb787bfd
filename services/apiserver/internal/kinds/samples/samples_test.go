package samples_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSamplesAreValid checks that every kind has a sample that its definition accepts unchanged.
func TestSamplesAreValid(t *testing.T) {
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	definitions := builtin.All(builtin.Config{})
	for _, kind := range table.Kinds() {
		obj := set.Of(kind)
		if obj.GetObjectKind().GroupVersionKind() != kind.GroupVersionKind || table.KindOf(obj) != kind {
			t.Errorf("the sample of %s has type %T", kind.GroupVersionKind, obj)
		}
		if kind.Virtual {
			continue
		}
		for _, obj := range []scheme.Object{obj, set.Nth(kind, 1, "other"), set.Nth(kind, 199, "default")} {
			s := definitions[kind.GroupVersionKind]
			if s.Default != nil {
				s.Default(obj)
			}
			obj.SetUID("u") // A job needs one.
			if s.PrepareForCreate != nil {
				s.PrepareForCreate(obj)
			}
			if errs := s.Validate(obj); len(errs) > 0 {
				t.Errorf("the sample %s of %s is not valid: %v", obj.GetName(), kind.GroupVersionKind, errs.ToAggregate())
			}
		}
		if change, ok := set.Change(kind); ok {
			patched := set.Of(kind)
			whole, err := json.Marshal(map[string]any{"spec": change.Spec, "status": change.Status})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(whole, patched); err != nil {
				t.Errorf("the change of %s cannot be applied: %v", kind.GroupVersionKind, err)
			}
		}
	}
}
