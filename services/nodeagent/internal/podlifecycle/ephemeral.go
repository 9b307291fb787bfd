package podlifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// startEphemeral starts one ephemeral container and records the reason if it could not. It does not
// start one whose spec requests what the node agent cannot do, and says so once.
func (l *Lifecycle) startEphemeral(ctx context.Context, s start, ec *corev1.EphemeralContainer) error {
	c := (*corev1.Container)(&ec.EphemeralContainerCommon)
	if unsupported := admit.UnsupportedEphemeral(s.wanted, c.Name); len(unsupported) > 0 {
		reason := status.Reason{Reason: reasonConfigError, Message: "this node agent does not support: " + strings.Join(unsupported, ", ")}
		if _, told := l.reason(string(s.pod.UID), c.Name); !told {
			l.event(s.pod, c.Name, corev1.EventTypeWarning, reasonUnsupported, "%s", reason.Message)
		}
		l.setReason(s.pod, c.Name, reason)
		return fmt.Errorf("starting container %s: %w", c.Name, &waitError{Reason: reason, known: true})
	}
	if present := s.state.Container(c.Name); present != nil {
		return l.startCreated(ctx, s, c, present)
	}
	return l.startContainer(ctx, s, c)
}

// startCreated starts an ephemeral container that an earlier agent created. It is not created anew:
// if the earlier agent's call started it meanwhile, it would run twice.
func (l *Lifecycle) startCreated(ctx context.Context, s start, c *corev1.Container, present *runtime.Container) error {
	if err := l.started(ctx, s.pod, c, present.ID); err != nil {
		return l.record(s.pod, c, err)
	}
	l.linkLog(s.pod, c, present.ID, filepath.Join(s.sandbox.LogDirectory, c.Name, strconv.FormatUint(uint64(present.Attempt), 10)+".log"))
	return l.record(s.pod, c, nil)
}

// target returns the ID of the container whose processes an ephemeral container sees; empty for a
// container that sees those of its own pod or only its own.
func target(s start, c *corev1.Container) (string, error) {
	i := slices.IndexFunc(s.pod.Spec.EphemeralContainers, func(ec corev1.EphemeralContainer) bool { return ec.Name == c.Name })
	if i < 0 || s.pod.Spec.EphemeralContainers[i].TargetContainerName == "" {
		return "", nil
	}
	name := s.pod.Spec.EphemeralContainers[i].TargetContainerName
	found := s.state.Container(name)
	if found == nil {
		return "", fmt.Errorf("unable to find target container %v", name)
	}
	return found.ID, nil
}
