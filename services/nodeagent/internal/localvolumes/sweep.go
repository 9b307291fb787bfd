package localvolumes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/localvolume"
)

const (
	// sweepPeriod is how often the API is asked about folders that no pod uses.
	sweepPeriod = 10 * time.Second
	// slowPeriod is how often it is asked about one whose volume is unknown, or that could not be removed.
	slowPeriod = time.Minute
	// askTime bounds one question.
	askTime = 10 * time.Second
	// progressPeriod is how often a slow removal is logged.
	progressPeriod = 30 * time.Second
)

// answer is what was last learned of a folder.
type answer struct {
	state state
	// again is when to ask next.
	again time.Time
}

// state is the state of a folder, in metrics.
type state string

const (
	used    state = "used"    // by a pod on the node
	idle    state = "idle"    // by no pod
	unknown state = "unknown" // the API does not know the volume, or does not show it to the node
	failed  state = "failed"  // it could not be removed
)

// Run removes the folders of deleted volumes until ctx ends.
func (f *Folders) Run(ctx context.Context) error {
	if f.cfg.Dir == "" {
		return nil
	}
	// Pods without volumes run all the same.
	if err := os.MkdirAll(f.cfg.Dir, 0o750); err != nil {
		f.cfg.Logger.Error("creating the folder of local volumes failed", "dir", f.cfg.Dir, "err", err)
	}
	for backoff.Sleep(ctx, sweepPeriod) {
		if err := f.sweep(ctx); err != nil && ctx.Err() == nil {
			f.cfg.Logger.Warn("looking for the folders of deleted volumes failed; they remain", "err", err)
		}
	}
	return nil
}

// sweep asks the API about each folder that no pod uses, and removes those of deleted volumes.
func (f *Folders) sweep(ctx context.Context) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	maps.DeleteFunc(f.asked, func(name string, _ answer) bool { return !slices.Contains(names, name) })
	defer f.count()
	for _, name := range names {
		last := f.asked[name]
		if time.Now().Before(last.again) {
			continue
		}
		in, err := f.cfg.InUse(name)
		if err != nil {
			return err
		}
		if in {
			f.asked[name] = answer{state: used}
			continue
		}
		if f.asked[name], err = f.ask(ctx, name, last); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the API about a folder, and removes it if its volume is deleted. An error means that the API did
// not answer.
func (f *Folders) ask(ctx context.Context, name string, last answer) (answer, error) {
	asking, cancel := context.WithTimeout(ctx, askTime)
	v, err := f.volumes.Get(asking, "", name, metav1.GetOptions{})
	cancel()
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		if last.state != unknown {
			f.cfg.Logger.Warn("a folder is kept although its volume is not known; remove it by hand if nobody needs it",
				"name", name, "path", filepath.Join(f.cfg.Dir, name), "err", err)
		}
		return answer{unknown, time.Now().Add(slowPeriod)}, nil
	case err != nil:
		return last, fmt.Errorf("reading volume %s: %w", name, err)
	}
	host, _ := localvolume.HostOf(v)
	if !localvolume.Removable(v) || host != f.cfg.NodeName || v.Spec.Local.Path != filepath.Join(f.cfg.Dir, name) {
		return answer{state: idle}, nil
	}
	began := time.Now()
	err = f.remove(ctx, name)
	f.metrics.took("volume_delete", time.Since(began), err)
	if err != nil {
		if ctx.Err() != nil {
			return last, nil // The next agent continues.
		}
		if last.state != failed {
			f.cfg.Logger.Error("removing the folder of a deleted volume failed", "name", name, "err", err)
		}
		if f.cfg.Events != nil {
			f.cfg.Events.Event(v, corev1.EventTypeWarning, "VolumeFailedDelete", "%v", err)
		}
		return answer{failed, time.Now().Add(slowPeriod)}, nil
	}
	f.cfg.Logger.Info("removed the folder of a deleted volume", "name", name)
	if err := f.cfg.Report(ctx); err != nil {
		// The next regular report says the same.
		f.cfg.Logger.Warn("reporting a removed volume failed", "name", name, "err", err)
	}
	return answer{}, nil
}

// remove removes a folder with everything in it.
func (f *Folders) remove(ctx context.Context, name string) error {
	logged := time.Now()
	err := removeTree(ctx, f.cfg.Dir, name, func(removed int) {
		if time.Since(logged) >= progressPeriod {
			logged = time.Now()
			f.cfg.Logger.Info("removing the folder of a deleted volume", "name", name, "removed", removed)
		}
	})
	if err != nil {
		return fmt.Errorf("removing folder %s: %w", filepath.Join(f.cfg.Dir, name), err)
	}
	return nil
}

// count sets the metric of folders.
func (f *Folders) count() {
	counts := map[state]int{used: 0, idle: 0, unknown: 0, failed: 0}
	for _, a := range f.asked {
		if a.state != "" {
			counts[a.state]++
		}
	}
	for s, n := range counts {
		f.metrics.folders.WithLabelValues(string(s)).Set(float64(n))
	}
}
