package podlifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Collect removes the dead containers and sandboxes of one pod from the runtime. For a living pod
// it keeps the newest container of each name and the one before it, for kubectl logs --previous,
// and the newest sandbox. For a pod that is gone it keeps nothing.
func (l *Lifecycle) Collect(ctx context.Context, state *podstate.Pod, gone bool) error {
	var faults []error
	seen := map[string]int{}
	left := map[string]bool{}
	for i := range state.Containers {
		c := &state.Containers[i]
		seen[c.Name]++
		if c.State != runtime.Exited && !gone || !gone && seen[c.Name] <= 2 {
			left[c.SandboxID] = true
			continue
		}
		if err := l.cfg.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			left[c.SandboxID] = true
			faults = append(faults, fmt.Errorf("removing the dead container %s of pod %s: %w", c.Name, state.UID, err))
			continue
		}
		if err := l.removeLog(c); err != nil {
			faults = append(faults, err)
		}
	}
	for i, s := range state.Sandboxes {
		if s.Ready || left[s.ID] || (i == 0 && !gone) {
			continue
		}
		if err := l.cfg.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			faults = append(faults, fmt.Errorf("removing a dead sandbox of pod %s: %w", state.UID, err))
		}
	}
	if gone && len(faults) == 0 {
		dir := podLogDir(l.cfg.LogDir, state.Namespace, state.Name, state.UID)
		if err := os.RemoveAll(dir); err != nil {
			faults = append(faults, fmt.Errorf("removing the logs of pod %s: %w", state.UID, err))
		}
	}
	return errors.Join(faults...)
}

// removeLog removes a container's log, its rotated parts and its link.
func (l *Lifecycle) removeLog(c *runtime.Container) error {
	if c.LogPath == "" || !strings.HasPrefix(c.LogPath, l.cfg.LogDir+string(filepath.Separator)) {
		return nil
	}
	files, err := filepath.Glob(c.LogPath + "*")
	if err != nil {
		return fmt.Errorf("finding the logs of container %s: %w", c.ID, err)
	}
	files = append(files, filepath.Join(l.cfg.LogDir, "containers", c.PodName+"_"+c.Namespace+"_"+c.Name+"-"+c.ID+".log"))
	for _, file := range files {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing a log: %w", err)
		}
	}
	return nil
}

// Forget drops everything remembered about a pod that is gone from the API.
func (l *Lifecycle) Forget(uid string) {
	l.mu.Lock()
	delete(l.reasons, uid)
	delete(l.kills, uid)
	l.mu.Unlock()
	l.crashes.Forget(func(key string) bool { return strings.HasPrefix(key, uid+"/") })
	l.cfg.Images.Forget(types.UID(uid))
	l.cfg.Prober.Remove(uid)
	l.cfg.References.Drop(uid)
	l.cfg.Status.Forget(uid)
}
