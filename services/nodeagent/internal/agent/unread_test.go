package agent_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAPodThatCannotBeRead: while the runtime cannot read the sandbox of a pod, others run and end, and Events of the pod
// say what it waits for.
func TestAPodThatCannotBeRead(t *testing.T) {
	const call = "PodSandboxStatus"
	w := newWorld(t)
	w.start()
	for _, name := range []string{"leaves", "stays"} {
		w.create(newPod(name))
		w.until(name, "ready", ready)
	}
	w.faults.Store(call, status.Error(codes.Unknown, "device or resource busy"))
	w.create(newPod("unread"))
	w.hasEvent("unread", "FailedSync: error determining status: rpc error: code = Unknown desc = device or resource busy")
	w.remove("leaves")
	if pod := w.get("stays"); !ready(pod) || pod.Status.PodIP == "" {
		t.Errorf("a pod that was read before is %+v", pod.Status)
	}
	if pod := w.get("unread"); ready(pod) {
		t.Errorf("the pod that cannot be read is %+v", pod.Status)
	}
	w.faults.Delete(call)
	w.until("unread", "ready", ready)
}
