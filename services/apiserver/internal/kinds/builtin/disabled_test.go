package builtin

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// TestDisabledFields checks that fields of disabled features do not get into new objects, do not
// count as a change, and stay where they are already.
func TestDisabledFields(t *testing.T) {
	all := All(Config{})
	with := func() *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Generation = 1
		d.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
		d.Spec.Template.Spec.EvictionResponders = make([]corev1.EvictionResponder, 1)
		return d
	}
	s := all[appsv1.SchemeGroupVersion.WithKind("Deployment")]
	created := with()
	s.PrepareForCreate(created)
	if spec := created.Spec.Template.Spec; spec.SchedulingGroup != nil || spec.EvictionResponders != nil {
		t.Errorf("created with %+v", spec)
	}
	updated := with()
	if s.Update.Prepare(updated, created); updated.Spec.Template.Spec.SchedulingGroup != nil || updated.Generation != created.Generation {
		t.Errorf("updated to %+v", updated)
	}
	kept := with()
	if s.Update.Prepare(kept, with()); kept.Spec.Template.Spec.SchedulingGroup == nil || kept.Spec.Template.Spec.EvictionResponders == nil {
		t.Errorf("the update lost fields: %+v", kept)
	}

	part := corev1.Container{
		Lifecycle:      &corev1.Lifecycle{StopSignal: new(corev1.SIGINT)},
		LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Mode: new(corev1.GRPCProbeModeTLS)}}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Protocol: new(corev1.HTTPProtocolHTTP2)}}},
		VolumeMounts:   []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}},
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{part}, InitContainers: []corev1.Container{*part.DeepCopy()},
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: new(int32(1))}}}},
	}}
	p, before := all[corev1.SchemeGroupVersion.WithKind("Pod")], pod.DeepCopy()
	if p.Update.Prepare(pod, before); !apiequality.Semantic.DeepEqual(pod.Spec, before.Spec) {
		t.Errorf("the update lost fields: %+v", pod.Spec)
	}
	p.PrepareForCreate(pod)
	for _, c := range []corev1.Container{pod.Spec.Containers[0], pod.Spec.InitContainers[0]} {
		if c.Lifecycle != nil || c.LivenessProbe.GRPC.Mode != nil || c.ReadinessProbe.HTTPGet.Protocol != nil || c.VolumeMounts[0].BindMountOptions != nil {
			t.Errorf("created with %+v", c)
		}
	}
	if pod.Spec.Volumes[0].EmptyDir.Mode != nil {
		t.Error("created with the mode of an empty volume")
	}

	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{Strategy: new(coordinationv1.OldestEmulationVersion), PreferredHolder: new("x")}}
	old := lease.DeepCopy()
	l := all[coordinationv1.SchemeGroupVersion.WithKind("Lease")]
	if l.Update.Prepare(lease, old); lease.Spec.Strategy == nil || lease.Spec.PreferredHolder == nil {
		t.Errorf("the update lost fields: %+v", lease)
	}
	if l.PrepareForCreate(lease); lease.Spec.Strategy != nil || lease.Spec.PreferredHolder != nil {
		t.Errorf("created with %+v", lease)
	}
}

// TestDisabledFieldsOfResizedContainers checks a resize that renames its containers, and so keeps all of
// them for validation: a disabled field in them is not one of the errors.
func TestDisabledFieldsOfResizedContainers(t *testing.T) {
	pod := func(name string, l *corev1.Lifecycle) *corev1.Pod {
		c := corev1.Container{Name: name, Image: "i", Lifecycle: l}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}, InitContainers: []corev1.Container{*c.DeepCopy()}}}
	}
	resize := All(Config{})[corev1.SchemeGroupVersion.WithKind("Pod")].Subresources["resize"]
	signal := func() *corev1.Lifecycle { return &corev1.Lifecycle{StopSignal: new(corev1.SIGINT)} }
	renamed := pod("b", signal())
	resize.Prepare(renamed, pod("a", nil))
	if c, init := renamed.Spec.Containers[0], renamed.Spec.InitContainers[0]; c.Lifecycle != nil || init.Lifecycle != nil || c.Name != "b" {
		t.Errorf("resized to %+v and %+v", c, init)
	}
	resized := pod("a", nil)
	resize.Prepare(resized, pod("a", signal()))
	if c := resized.Spec.Containers[0]; c.Lifecycle == nil {
		t.Errorf("the resize lost a field: %+v", c)
	}
}

// TestDisabledFieldsOfEphemeralContainers checks that an added ephemeral container brings none either.
func TestDisabledFieldsOfEphemeralContainers(t *testing.T) {
	change := All(Config{})[corev1.SchemeGroupVersion.WithKind("Pod")].Subresources["ephemeralcontainers"]
	added, old := &corev1.Pod{}, &corev1.Pod{}
	added.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: []corev1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}},
	}}}
	change.Prepare(added, old)
	if got := added.Spec.EphemeralContainers; len(got) != 1 || got[0].VolumeMounts[0].BindMountOptions != nil {
		t.Errorf("the update adds %+v", got)
	}
}
