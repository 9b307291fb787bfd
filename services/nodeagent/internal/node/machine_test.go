package node

import (
	"net/netip"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMergeConditions merges what the agent reports into what the API has.
func TestMergeConditions(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	at := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, heartbeat, transition metav1.Time) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: heartbeat, LastTransitionTime: transition}
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	fresh := []corev1.NodeCondition{{Type: "Ready", Status: yes}}
	for _, c := range []struct {
		name string
		old  []corev1.NodeCondition
		want []corev1.NodeCondition
		// changed has the types of the changed conditions.
		changed string
	}{
		{"new", nil, []corev1.NodeCondition{at("Ready", yes, now, now)}, "Ready"},
		{"the same", []corev1.NodeCondition{at("Ready", yes, before, before)}, []corev1.NodeCondition{at("Ready", yes, now, before)}, ""},
		{"another status", []corev1.NodeCondition{at("Ready", no, before, before)}, []corev1.NodeCondition{at("Ready", yes, now, now)}, "Ready"},
		{"the controller marked it unknown", []corev1.NodeCondition{at("Ready", corev1.ConditionUnknown, before, before)},
			[]corev1.NodeCondition{at("Ready", yes, now, now)}, "Ready"},
		{"of others", []corev1.NodeCondition{at("KernelDeadlock", no, before, before), at("Ready", yes, before, before)},
			[]corev1.NodeCondition{at("KernelDeadlock", no, before, before), at("Ready", yes, now, before)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := append([]corev1.NodeCondition(nil), c.old...)
			merged, changed := mergeConditions(c.old, fresh, now)
			var kinds []string
			for _, condition := range changed {
				kinds = append(kinds, string(condition.Type))
			}
			if !equal(merged, c.want) || strings.Join(kinds, " ") != c.changed {
				t.Errorf("got %v, of which %v changed", merged, kinds)
			}
			if !equal(kept, c.old) {
				t.Errorf("the API's conditions were changed to %v", c.old)
			}
		})
	}
}

func equal(a, b []corev1.NodeCondition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestEvent names the Events about conditions in the kubelet's words.
func TestEvent(t *testing.T) {
	for want, c := range map[string]corev1.NodeCondition{
		"NodeReady":                 {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		"NodeNotReady":              {Type: corev1.NodeReady, Status: corev1.ConditionFalse},
		"NodeHasInsufficientMemory": {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
		"NodeHasNoDiskPressure":     {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
		"NodeHasDiskPressure":       {Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
		"NodeHasSufficientPID":      {Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
	} {
		if reason, message := event("n1", c); reason != want || message != "Node n1 status is now: "+want {
			t.Errorf("the Event about %v is %s: %s", c, reason, message)
		}
	}
}

// TestMachine reads this machine, whose values are within what any machine has.
func TestMachine(t *testing.T) {
	total, err := memory("MemTotal")
	free, freeErr := memory("MemAvailable")
	if err != nil || freeErr != nil || total < 64<<20 || free <= 0 || free > total {
		t.Errorf("%d bytes of %d are free: %v, %v", free, total, err, freeErr)
	}
	if _, err := memory("MemBorrowed"); err == nil || !strings.Contains(err.Error(), "MemBorrowed") {
		t.Errorf("an unknown line: %v", err)
	}
	size, available, err := disk(t.TempDir())
	if err != nil || size <= 0 || available <= 0 || available > size {
		t.Errorf("%d bytes of %d are free: %v", available, size, err)
	}
	if _, _, err := disk(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that does not exist has a size")
	}
	if left, err := pids(); err != nil || left <= 0 {
		t.Errorf("%d process IDs are free: %v", left, err)
	}
	info := systemInfo("containerd://1")
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || info.KernelVersion != strings.TrimSpace(string(kernel)) || info.Architecture != goruntime.GOARCH || info.OSImage == "" ||
		info.ContainerRuntimeVersion != "containerd://1" || info.KubeletVersion != KubeletVersion {
		t.Errorf("the machine is %+v, %v", info, err)
	}
	address, err := Address()
	if parsed, parseErr := netip.ParseAddr(address); err != nil || parseErr != nil || parsed.IsUnspecified() {
		t.Errorf("the address is %q, %v", address, err)
	}
}

// TestCapacity: pods get what the system does not need.
func TestCapacity(t *testing.T) {
	all, allocatable, err := capacity(t.TempDir(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Memory().Value() - allocatable.Memory().Value(); got != reservedMemory {
		t.Errorf("%d bytes of memory are reserved", got)
	}
	if all.Pods().Value() != 7 || allocatable.Pods().Value() != 7 || all.Cpu().Value() != int64(goruntime.NumCPU()) {
		t.Errorf("the capacity is %v", all)
	}
	disk, usable := all.StorageEphemeral().Value(), allocatable.StorageEphemeral().Value()
	if share := float64(usable) / float64(disk); share < 0.89 || share > 0.91 {
		t.Errorf("pods get %.2f of the disk", share)
	}
	if _, _, err := capacity(filepath.Join(t.TempDir(), "none"), 7); err == nil {
		t.Error("a node without its directory has a capacity")
	}
}

// TestSameButHeartbeats: a heartbeat alone is no reason to write the status, and anything else is.
func TestSameButHeartbeats(t *testing.T) {
	status := func(change func(*corev1.NodeStatus)) *corev1.NodeStatus {
		s := &corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Unix(1, 0))}},
		}
		change(s)
		return s
	}
	old := status(func(*corev1.NodeStatus) {})
	for name, c := range map[string]struct {
		change func(*corev1.NodeStatus)
		want   bool
	}{
		"a heartbeat":  {func(s *corev1.NodeStatus) { s.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(2, 0)) }, true},
		"a transition": {func(s *corev1.NodeStatus) { s.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(2, 0)) }, false},
		"a message":    {func(s *corev1.NodeStatus) { s.Conditions[0].Message = "m" }, false},
		"an address":   {func(s *corev1.NodeStatus) { s.Addresses[0].Address = "10.0.0.2" }, false},
		"a capacity": {func(s *corev1.NodeStatus) {
			s.Capacity = corev1.ResourceList{"cpu": *resource.NewQuantity(1, resource.DecimalSI)}
		}, false},
	} {
		changed := status(c.change)
		if got := sameButHeartbeats(old, changed); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
		if changed.Conditions[0].LastHeartbeatTime.IsZero() {
			t.Error("comparing changed the status")
		}
	}
}
