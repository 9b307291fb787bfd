package podfiles_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podfiles"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMessagesAreBounded(t *testing.T) {
	dir, pod := t.TempDir(), &corev1.Pod{}
	for i := range 6 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
	}
	path := podfiles.MessagePath(dir, "c0", 0)
	log := filepath.Join(t.TempDir(), "0.log")
	// An unfinished line, as in a log.
	line := "2026-01-01T00:00:00Z stdout P " + strings.Repeat("x", 1<<14) + "\n"
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	fallback := string(corev1.TerminationMessageFallbackToLogsOnError)
	for name, c := range map[string]struct {
		make      func() error
		container runtime.Container
		limit     int
	}{
		"endless file": {func() error { return os.Truncate(path, 1<<40) },
			runtime.Container{Annotations: map[string]string{podfiles.AnnotationMessagePath: "/dev/termination-log"}}, 2048},
		"not text": {func() error { return os.WriteFile(path, []byte(strings.Repeat("a\xff", 2000)), 0o600) },
			runtime.Container{Annotations: map[string]string{podfiles.AnnotationMessagePath: "/dev/termination-log"}}, 2048},
		"FIFO": {func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
			runtime.Container{Annotations: map[string]string{podfiles.AnnotationMessagePath: "/dev/termination-log"}, Message: "the runtime's"}, 13},
		"long line in the log": {func() error { return nil },
			runtime.Container{Annotations: map[string]string{podfiles.AnnotationMessagePolicy: fallback}, ExitCode: 1, LogPath: log}, 2048},
		"the runtime's": {func() error { return nil }, runtime.Container{Message: strings.Repeat("m", 1<<20)}, 2048},
	} {
		t.Run(name, func(t *testing.T) {
			if err := podfiles.MakeMessage(path); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(path) }()
			if err := c.make(); err != nil {
				t.Fatal(err)
			}
			c.container.Name, c.container.State = "c0", runtime.Exited
			state := podfiles.WithMessages(t.Context(), dir, pod, &podstate.Pod{Containers: []runtime.Container{c.container}})
			message := state.Containers[0].Message
			if len(message) > c.limit || len(message) < c.limit*9/10 || !utf8.ValidString(message) {
				t.Errorf("the message has %d bytes, want %d: %.40q", len(message), c.limit, message)
			}
		})
	}
}

// TestEphemeralContainersShareTheLimit: the messages of all containers of a pod share one limit.
func TestEphemeralContainersShareTheLimit(t *testing.T) {
	state := &podstate.Pod{Containers: []runtime.Container{{Name: "app", State: runtime.Exited, Message: strings.Repeat("m", 1<<20)}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	for _, want := range []int{4096, 4096, 4096, 3072} {
		if got := len(podfiles.WithMessages(t.Context(), t.TempDir(), pod, state).Containers[0].Message); got != want {
			t.Errorf("with %d ephemeral containers the message has %d bytes, want %d", len(pod.Spec.EphemeralContainers), got, want)
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{})
	}
}
