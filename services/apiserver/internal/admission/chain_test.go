package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWhenPluginsRun checks that all plugins mutate before any validates, each in order, that a
// refusal ends the chain, and that the plugins' effects are then undone.
func TestWhenPluginsRun(t *testing.T) {
	var ran []string
	say := func(name string, err error) func(context.Context, *admission.Request) error {
		return func(_ context.Context, req *admission.Request) error {
			ran = append(ran, name)
			req.OnUndo(func(context.Context) { ran = append(ran, "undo "+name) })
			return err
		}
	}
	chain := admission.NewChain(
		admission.Plugin{Name: "a", Mutate: say("a mutates", nil), Validate: say("a validates", nil)},
		admission.Plugin{Name: "b", Validate: say("b validates", errors.New("no"))},
		admission.Plugin{Name: "c", Mutate: say("c mutates", nil), Validate: say("c validates", nil)},
	)
	w := admissiontest.New()
	if _, err := w.AdmitBy(t, &admission.Request{Object: admissiontest.Pod()}, chain); err == nil || err.Error() != "no" {
		t.Errorf("got %v, want no", err)
	}
	want := "a mutates, c mutates, a validates, b validates, undo a mutates, undo c mutates, undo a validates, undo b validates"
	if got := strings.Join(ran, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestReinvocation checks that all plugins mutate once more, and only once more, if one asks for it.
func TestReinvocation(t *testing.T) {
	var ran []string
	mutate := func(name string, again bool) func(context.Context, *admission.Request) error {
		return func(_ context.Context, req *admission.Request) error {
			before, _ := req.Kept(name).(string)
			ran = append(ran, fmt.Sprintf("%s %v%s", name, req.Reinvoked(), before))
			req.Keep(name, " as before")
			if again {
				req.Reinvoke()
			}
			return nil
		}
	}
	w := admissiontest.New()
	for _, again := range []bool{false, true} {
		ran = nil
		chain := admission.NewChain(
			admission.Plugin{Name: "a", Mutate: mutate("a", false)},
			admission.Plugin{Name: "b", Mutate: mutate("b", again)},
		)
		if _, err := w.AdmitBy(t, &admission.Request{Object: admissiontest.Pod()}, chain); err != nil {
			t.Error(err)
		}
		want := "a false, b false"
		if again {
			want += ", a true as before, b true as before"
		}
		if got := strings.Join(ran, ", "); got != want {
			t.Errorf("again %v: got  %s\nwant %s", again, got, want)
		}
	}
}
