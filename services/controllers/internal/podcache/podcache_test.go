package podcache

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/podresources"
)

// full returns a pod of a template that has what a controller reads, and what none does.
func full(ordinal int) *corev1.Pod {
	name := fmt.Sprint("web-", ordinal)
	wants := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			// As decoding does, each pod has its own.
			Namespace: strings.Clone("default"), Name: name, Labels: map[string]string{"app": "web"},
			Annotations:     map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "{}"},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1"}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", ordinal), Hostname: name, Subdomain: "web",
			Containers: []corev1.Container{{
				Name: "main", Image: "image:1", Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, LivenessProbe: probe,
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, Resources: wants,
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			InitContainers: []corev1.Container{{Name: "side", Image: "image:2", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name}}},
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
				{Name: "disk", VolumeSource: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}},
			},
			Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
			Affinity:    &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, SecurityContext: &corev1.PodSecurityContext{},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.0.0.", ordinal), HostIP: "192.0.2.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "r", Message: "long"},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "kept"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Image: "image:1", ImageID: "sha256:1", ContainerID: "containerd://1", Ready: true, RestartCount: int32(ordinal),
				State:     corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Message: "long", ContainerID: "containerd://1"}},
				Resources: wants.DeepCopy(),
			}},
		},
	}
}

// TestTrim checks what is kept of a pod, field by field.
func TestTrim(t *testing.T) {
	pod, common := full(3), newCommon()
	for range 2 { // The second is shared.
		pod = full(3)
		trim(pod)
		common.share(pod)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-3", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-3", Hostname: "web-3", Subdomain: "web",
			Containers: []corev1.Container{{
				Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, Resources: full(3).Spec.Containers[0].Resources,
			}},
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			Volumes:        []corev1.Volume{full(3).Spec.Volumes[0], full(3).Spec.Volumes[2]},
			Tolerations:    full(3).Spec.Tolerations, Affinity: full(3).Spec.Affinity,
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.3", HostIP: "192.0.2.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "r"},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "kept"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Ready: true, RestartCount: 3,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}},
			}},
		},
	}
	if !equality.Semantic.DeepEqual(pod, want) {
		t.Errorf("got %+v\nwant %+v", pod, want)
	}
}

// TestResources checks that a trimmed pod has for a quota the size that the whole one has, also while it is resized.
func TestResources(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	infeasible := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "no"}
	for name, change := range map[string]func(*corev1.Pod){
		"as it is": func(*corev1.Pod) {},
		"shrinks":  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpu("50m") },
		"grows":    func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpu("500m") },
		"allocated": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].AllocatedResources = cpu("200m")
		},
		"cannot grow": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = cpu("500m")
			p.Status.Conditions = append(p.Status.Conditions, infeasible)
		},
		"could not grow": func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, infeasible) },
		"best effort": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources, p.Status.ContainerStatuses[0].Resources = corev1.ResourceRequirements{}, nil
		},
	} {
		whole, trimmed := full(1), full(1)
		change(whole)
		change(trimmed)
		trim(trimmed)
		if got, want := podresources.Requests(trimmed), podresources.Requests(whole); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: requests %v, want %v", name, got, want)
		}
		if got, want := podresources.Limits(trimmed), podresources.Limits(whole); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: limits %v, want %v", name, got, want)
		}
	}
}

// TestShare checks that pods of one template share what they have in common, each keeps its own, and neither a large
// spec nor many different ones are kept.
func TestShare(t *testing.T) {
	common := newCommon()
	one, two := full(1), full(2)
	for _, pod := range []*corev1.Pod{one, two} {
		trim(pod)
		common.share(pod)
	}
	if &one.Spec.Containers[0] != &two.Spec.Containers[0] || &one.Spec.Tolerations[0] != &two.Spec.Tolerations[0] {
		t.Error("the containers or the tolerations are not shared")
	}
	one.Labels["shared"] = "yes"
	if two.Labels["shared"] != "yes" {
		t.Error("the labels are not shared")
	}
	if unsafe.StringData(one.Namespace) != unsafe.StringData(two.Namespace) {
		t.Error("the namespace is not shared")
	}
	if two.Spec.NodeName != "node-2" || two.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-2" || two.Spec.Hostname != "web-2" {
		t.Errorf("its own is lost: %+v", two.Spec)
	}
	for i := range 3 * remembered {
		pod := full(i)
		pod.Labels = map[string]string{"i": fmt.Sprint(i)}
		pod.Spec.Subdomain = fmt.Sprint("s", i)
		trim(pod)
		common.share(pod)
	}
	if specs, maps := common.specs.Len(), common.maps.Len(); specs > remembered || maps > remembered {
		t.Errorf("%d specs and %d maps are kept", specs, maps)
	}
	vast := full(1)
	vast.Spec.NodeSelector = map[string]string{"a": strings.Repeat("b", largest)}
	vast.Annotations = maps.Clone(vast.Spec.NodeSelector)
	specs, maps := common.specs.Len(), common.maps.Len()
	common.specs.Clear()
	common.maps.Clear()
	trim(vast)
	vast.Labels = nil
	common.share(vast)
	if common.specs.Len() != 0 || common.maps.Len() != 0 {
		t.Errorf("a large spec or map is kept; %d, %d before", specs, maps)
	}
}
