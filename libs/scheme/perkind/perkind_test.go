package perkind_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func custom(name string) *scheme.Kind {
	return &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: name}, Custom: true,
		Resource: name + "s", StoragePrefix: "example.org/" + name,
	}
}

// runs records the runs of kinds.
type runs struct {
	mu  sync.Mutex
	log []string
}

func (r *runs) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, what)
}

func (r *runs) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// TestRun installs and removes kinds while Run runs. A kind that comes back waits for its former
// run, and the end of ctx ends all runs.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, seen := scheme.New(), &runs{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- perkind.Run(ctx, table, func(ctx context.Context, kind *scheme.Kind) error {
				if !kind.Custom {
					return nil
				}
				seen.add("begin " + kind.Kind)
				<-ctx.Done()
				time.Sleep(time.Second)
				if errors.Is(context.Cause(ctx), scheme.ErrRemoved) {
					seen.add("removed " + kind.Kind)
				} else {
					seen.add("end " + kind.Kind)
				}
				return nil
			})
		}()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := seen.take(); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		install := func(name string) {
			if err := table.Install(custom(name)); err != nil {
				t.Fatal(err)
			}
		}
		install("Gadget")
		expect("begin Gadget")
		table.Remove(custom("Gadget").GroupVersionKind)
		synctest.Wait()
		install("Gadget")
		expect() // The former run has not returned.
		time.Sleep(time.Second)
		expect("removed Gadget", "begin Gadget")
		cancel()
		time.Sleep(time.Second)
		expect("end Gadget")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRunFails checks that a run that fails ends all others.
func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	err := perkind.Run(t.Context(), scheme.New(), func(ctx context.Context, kind *scheme.Kind) error {
		if kind.Kind == "Pod" {
			return broken
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestRunOf runs a function only for the kinds that are chosen, as the table changes.
func TestRunOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, seen := scheme.New(), &runs{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- perkind.RunOf(ctx, table, func(kinds []*scheme.Kind) []*scheme.Kind {
				// The latest kind is chosen, if it is a custom one.
				if last := kinds[len(kinds)-1:]; last[0].Custom {
					return last
				}
				return nil
			}, func(ctx context.Context, kind *scheme.Kind) error {
				seen.add("begin " + kind.Kind)
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), scheme.ErrRemoved) {
					seen.add("removed " + kind.Kind)
				}
				return nil
			})
		}()
		for _, step := range []struct {
			change func()
			want   []string
		}{
			{func() {}, nil},
			{func() { _ = table.Install(custom("Gadget")) }, []string{"begin Gadget"}},
			{func() { _ = table.Install(custom("Widget")) }, []string{"begin Widget", "removed Gadget"}},
			{func() { table.Remove(custom("Widget").GroupVersionKind) }, []string{"begin Gadget", "removed Widget"}},
			{cancel, nil},
		} {
			step.change()
			synctest.Wait()
			got := seen.take()
			if slices.Sort(got); !slices.Equal(got, step.want) {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
