package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// The bounds of a termination message (Kubernetes): of the file, and of the log's end that
// stands for it.
const (
	maxMessage      = 4096
	maxMessageLog   = 2048
	maxMessageLines = 80
)

// messagePath is the file on the host that a container finds at its terminationMessagePath.
func (l *Lifecycle) messagePath(uid, container string, attempt uint32) string {
	return filepath.Join(l.cfg.Volumes.PodDir(uid), "containers", container, strconv.FormatUint(uint64(attempt), 10))
}

// withMessages gives state with the messages that ended containers left.
func (l *Lifecycle) withMessages(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) *podstate.Pod {
	var changed *podstate.Pod
	for i := range state.Containers {
		c := &state.Containers[i]
		if c.State != runtime.Exited {
			continue
		}
		message := l.message(ctx, pod, c)
		if message == "" || message == c.Message {
			continue
		}
		if changed == nil {
			copied := *state
			copied.Containers = slices.Clone(state.Containers)
			changed = &copied
		}
		changed.Containers[i].Message = message
	}
	if changed == nil {
		return state
	}
	return changed
}

func (l *Lifecycle) message(ctx context.Context, pod *corev1.Pod, c *runtime.Container) string {
	if c.Annotations[annotationMessagePath] != "" {
		text, err := head(l.messagePath(string(pod.UID), c.Name, c.Attempt), maxMessage)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("Error on reading termination log %s: %v", c.Annotations[annotationMessagePath], err)
		case len(text) > 0:
			return string(text)
		}
	}
	policy := corev1.TerminationMessagePolicy(c.Annotations[annotationMessagePolicy])
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// logEnd is the end of an ended container's log.
func logEnd(ctx context.Context, path string) (string, error) {
	var b bytes.Buffer
	lines := int64(maxMessageLines)
	if err := containerlog.Read(ctx, path, containerlog.Options{Tail: &lines}, nil, &b); err != nil {
		return "", err
	}
	text := b.Bytes()
	if len(text) > maxMessageLog {
		text = text[len(text)-maxMessageLog:]
	}
	return string(text), nil
}
