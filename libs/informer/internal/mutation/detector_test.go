package mutation

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestDetector checks that a change is reported once, with the key and the difference, even if the
// object left the store up to two minutes ago.
func TestDetector(t *testing.T) {
	for _, tt := range []struct {
		name string
		// left means that the object leaves the store; after is how long afterwards it is changed.
		left  bool
		after time.Duration
		want  int
	}{
		{"stored", false, 0, 1},
		{"stored long ago", false, time.Hour, 1},
		{"gone lately", true, time.Minute, 1},
		{"gone long ago", true, 3 * time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var found []string
			d := New(true, "pods", func(err error) { found = append(found, err.Error()) })
			mine := pod("a")
			d.Stored("default/a", mine)
			d.Stored("default/b", pod("b"))
			if tt.left {
				d.Dropped("default/a")
			}
			// as Run does each second
			for range int(tt.after / period) {
				d.look()
			}
			if len(found) != 0 {
				t.Errorf("found %q although nothing was changed", found)
			}
			mine.Labels = map[string]string{"stolen": "yes"}
			for range 5 {
				d.look()
			}
			if len(found) != tt.want || tt.want > 0 && (!strings.Contains(found[0], "pods: default/a was changed") || !strings.Contains(found[0], "stolen")) {
				t.Errorf("found %q, want %d", found, tt.want)
			}
		})
	}
}

// TestUnwanted checks that an unwanted detector is nil, and does nothing.
func TestUnwanted(t *testing.T) {
	t.Setenv(Variable, "")
	d := New(false, "pods", nil)
	if d != nil {
		t.Fatal("got a detector although none is wanted")
	}
	d.Stored("a", pod("a"))
	d.Dropped("a")
}

const childVariable = "GARBOARD_MUTATION_TEST_CHILD"

// TestTheftEndsTheProcess checks that without a found function a mutation ends the process, as in
// client-go (checklist 131).
func TestTheftEndsTheProcess(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		return
	}
	for _, tt := range []struct {
		what string
		ends bool
	}{{"steal", true}, {"borrow", false}} {
		t.Run(tt.what, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChild$", "-test.v")
			command.Env = append(os.Environ(), childVariable+"="+tt.what, Variable+"=true")
			output, err := command.CombinedOutput()
			if !strings.Contains(string(output), "--- PASS: TestChild") == !tt.ends {
				t.Errorf("the child said\n%s", output)
			}
			if (err != nil) != tt.ends {
				t.Errorf("the process ended with %v:\n%s", err, output)
			}
			if says := strings.Contains(string(output), "panic: cache of pods: default/a was changed by a reader"); says != tt.ends {
				t.Errorf("the process said\n%s", output)
			}
		})
	}
}

// TestChild is the process that TestTheftEndsTheProcess starts.
func TestChild(t *testing.T) {
	what := os.Getenv(childVariable)
	if what == "" {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		d := New(false, "pods", nil) // turned on by the environment
		mine := pod("a")
		d.Stored("default/a", mine)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.Run(ctx) }()
		time.Sleep(period / 2)
		if what == "steal" {
			mine.Labels = map[string]string{"stolen": "yes"}
		}
		time.Sleep(period)
		cancel()
		<-ended
	})
}
