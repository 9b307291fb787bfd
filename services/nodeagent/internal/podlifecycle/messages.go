package podlifecycle

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

// The limits, in bytes, of a termination message (Kubernetes): of the file, of all containers of a
// pod together, and of the end of the log that replaces it.
const (
	maxMessage      = 4096
	maxMessages     = 3 * maxMessage // of one pod's containers
	maxMessageLog   = 2048
	maxMessageLines = 80
)

// messagePath returns the host path of the file mounted at a container's terminationMessagePath.
func (l *Lifecycle) messagePath(uid, container string, attempt uint32) string {
	return filepath.Join(l.cfg.Volumes.PodDir(uid), "containers", container, strconv.FormatUint(uint64(attempt), 10))
}

// makeMessageFile creates the empty file; any user of the container may write to it.
func makeMessageFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the termination message: %w", err)
	}
	if err := overwrite(path, nil, 0o666); err != nil {
		return fmt.Errorf("creating the file of the termination message: %w", err)
	}
	return nil
}

// overwrite replaces the content of a file that a container may have mounted. It writes to the
// existing file and reads none of it.
func overwrite(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(text))); err != nil {
		return err
	}
	// OpenFile's mode is subject to the umask.
	return f.Chmod(mode)
}

// withMessages returns state with the messages that ended containers left.
func (l *Lifecycle) withMessages(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) *podstate.Pod {
	var changed *podstate.Pod
	limit := maxMessages / max(1, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range state.Containers {
		c := &state.Containers[i]
		if c.State != runtime.Exited {
			continue
		}
		message := events.Cut(cmp.Or(l.message(ctx, pod, c), c.Message), min(limit, maxMessage))
		if message == c.Message {
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
