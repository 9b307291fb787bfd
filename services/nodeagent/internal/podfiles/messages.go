package podfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Annotations of the runtime's containers, Kubernetes' own. From them a restarted agent learns where
// a container leaves its message.
const (
	AnnotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
)

// MaxMessage is the limit, in bytes, of a container's message.
const MaxMessage = 4096

// The limits of all messages of a pod together, in bytes, and of the end of the log that replaces one
// (Kubernetes).
const (
	maxMessages     = 3 * MaxMessage
	maxMessageLog   = 2048
	maxMessageLines = 80
)

// MessagePath returns the path of the file mounted at a container's terminationMessagePath, below
// the directory of its pod.
func MessagePath(podDir, container string, attempt uint32) string {
	return filepath.Join(podDir, "containers", container, strconv.FormatUint(uint64(attempt), 10))
}

// MakeMessage creates the empty file; any user of the container may write to it.
func MakeMessage(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the termination message: %w", err)
	}
	if err := Overwrite(path, nil, 0o666); err != nil {
		return fmt.Errorf("creating the file of the termination message: %w", err)
	}
	return nil
}

// WithMessages returns state with the messages that ended containers left. podDir is the directory of
// the pod.
func WithMessages(ctx context.Context, podDir string, pod *corev1.Pod, state *podstate.Pod) *podstate.Pod {
	var changed *podstate.Pod
	limit := maxMessages / max(1, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
	for i := range state.Containers {
		c := &state.Containers[i]
		if c.State != runtime.Exited {
			continue
		}
		text := events.Cut(cmp.Or(message(ctx, podDir, c), c.Message), min(limit, MaxMessage))
		if text == c.Message {
			continue
		}
		if changed == nil {
			copied := *state
			copied.Containers = slices.Clone(state.Containers)
			changed = &copied
		}
		changed.Containers[i].Message = text
	}
	if changed == nil {
		return state
	}
	return changed
}

func message(ctx context.Context, podDir string, c *runtime.Container) string {
	if c.Annotations[AnnotationMessagePath] != "" {
		text, err := head(MessagePath(podDir, c.Name, c.Attempt), MaxMessage)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("Error on reading termination log %s: %v", c.Annotations[AnnotationMessagePath], err)
		case len(text) > 0:
			return string(text)
		}
	}
	policy := corev1.TerminationMessagePolicy(c.Annotations[AnnotationMessagePolicy])
	if policy != corev1.TerminationMessageFallbackToLogsOnError || c.ExitCode == 0 || c.LogPath == "" {
		return c.Message
	}
	text, err := logEnd(ctx, c.LogPath)
	if err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return text
}

func head(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// logEnd returns the end of an ended container's log.
func logEnd(ctx context.Context, path string) (string, error) {
	var end tail
	lines := int64(maxMessageLines)
	if err := containerlog.Read(ctx, path, containerlog.Options{Tail: &lines}, nil, &end); err != nil {
		return "", err
	}
	return string(end[max(0, len(end)-maxMessageLog):]), nil
}

// tail keeps the end of what is written to it; a single line may be as long as the log.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p[max(0, len(p)-maxMessageLog):]...)
	if len(*t) > 2*maxMessageLog {
		*t = slices.Clone((*t)[len(*t)-maxMessageLog:])
	}
	return len(p), nil
}
