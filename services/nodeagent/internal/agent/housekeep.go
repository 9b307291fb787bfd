package agent

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// housekeep terminates and removes what is no longer wanted: pods that only the runtime knows,
// remains of deleted pods, dead containers, directories and logs.
func (a *Agent) housekeep(ctx context.Context) error {
	running, listed := a.pleg.Pods()
	if listed.IsZero() {
		return nil
	}
	wanted := func(uid string) bool { return a.pods.Get(uid) != nil }
	dropped, alive := a.workers.Forget(wanted)
	for _, uid := range dropped {
		a.lifecycle.Forget(uid)
	}
	for _, pod := range alive {
		a.workers.Kill(pod, podworkers.Kill{})
	}
	var faults []error
	for uid, state := range running {
		if state.Err != nil {
			continue
		}
		faults = append(faults, a.keepHouse(ctx, uid, state, wanted(uid)))
	}
	a.forgetProbes()
	faults = append(faults, a.removeDirectories(running), a.sweepLogs(running))
	return errors.Join(faults...)
}

// sweepLogs removes the logs of pods that are gone from the API and the runtime.
func (a *Agent) sweepLogs(running map[string]*podstate.Pod) error {
	containers := map[string]bool{}
	for _, state := range running {
		for i := range state.Containers {
			containers[state.Containers[i].ID] = true
		}
	}
	return a.lifecycle.SweepLogs(
		func(uid string) bool { return running[uid] != nil || a.inUse(uid) },
		func(id string) bool { return containers[id] },
	)
}

// inUse reports whether a pod is wanted or still has a worker.
func (a *Agent) inUse(uid string) bool {
	known, _ := a.workers.Known(uid)
	return known || a.pods.Get(uid) != nil
}

// forgetProbes drops the probe results of containers that are gone. It uses the newest list: a
// result dropped for a container missing from an older list would not be reported again.
func (a *Agent) forgetProbes() {
	now, _ := a.pleg.Pods()
	containers := map[string]bool{}
	for _, state := range now {
		for i := range state.Containers {
			containers[state.Containers[i].ID] = true
		}
	}
	a.prober.Forget(func(id string) bool { return !containers[id] })
}

// keepHouse cleans up one pod of the runtime.
func (a *Agent) keepHouse(ctx context.Context, uid string, state *podstate.Pod, wanted bool) error {
	known, done := a.workers.Known(uid)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: state.Name, Namespace: state.Namespace, UID: types.UID(uid)}}
	switch {
	case wanted && done && (!state.Stopped() || len(state.Unstarted()) > 0):
		// The pod has terminated, but a call that its worker abandoned took effect only afterwards.
		return a.lifecycle.TerminateOrphan(ctx, pod, state)
	case wanted:
		if time.Since(state.NewestAt()) < minAge {
			return nil
		}
		return a.lifecycle.Collect(ctx, state, false)
	case known && !done:
		return nil // Its worker is terminating it.
	case !state.Stopped():
		a.workers.KillOrphan(pod)
		return nil
	}
	err := a.lifecycle.Collect(ctx, state, true)
	if err == nil {
		a.pleg.Nudge()
	}
	return err
}

// minAge is the minimum age of a pod's newest sandbox before its dead containers are collected:
// until then its worker may be about to use them.
const minAge = 5 * time.Second

// removeDirectories deletes the directories and volumes of pods that are gone.
func (a *Agent) removeDirectories(running map[string]*podstate.Pod) error {
	uids, err := a.volumes.Pods()
	if err != nil {
		return err
	}
	var faults []error
	for _, uid := range uids {
		if running[uid] != nil || a.inUse(uid) {
			continue
		}
		faults = append(faults, a.volumes.Remove(uid))
	}
	return errors.Join(faults...)
}

// held returns the runtime's pods by UID, as of the last list.
func (a *Agent) held() map[string]*podstate.Pod {
	pods, _ := a.pleg.Pods()
	return pods
}

// containers returns all containers of the runtime, as of the last list.
func (a *Agent) containers() []runtime.Container {
	pods, _ := a.pleg.Pods()
	var all []runtime.Container
	for _, state := range pods {
		all = append(all, state.Containers...)
	}
	return all
}
