package managedfields_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// benchPod is a pod as a controller creates it, with defaults.
func benchPod() *corev1.Pod {
	grace, optional := int64(30), true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-", Name: "web-abcde", Namespace: "default", Labels: map[string]string{"app": "web", "pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: &optional}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "nginx:1.14.2", ImagePullPolicy: "IfNotPresent", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
				Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			RestartPolicy: "Always", DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{}, ServiceAccountName: "default", EnableServiceLinks: &optional,
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}},
		},
	}
}

func BenchmarkOwners(b *testing.B) {
	table := scheme.New()
	kind := scheme.For[*corev1.Pod](table)
	owners := managedfields.New(managedfields.Config{Table: table})
	empty, live := kind.New(), benchPod()
	owners.Update(kind, "", empty, live, "controller")
	live.UID, live.ResourceVersion = "u", "1"
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pod := benchPod()
			owners.Update(kind, "", empty, pod, "controller")
		}
	})
	b.Run("status", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pod := live.DeepCopy()
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}, {Type: "PodScheduled", Status: "True"}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true, Image: "nginx:1.14.2"}}
			owners.Update(kind, "status", live, pod, "kubelet")
		}
	})
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			owners.Update(kind, "", live, live.DeepCopy(), "controller")
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		wanted := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web-abcde", "labels": map[string]any{"a": "b"}},
		}}
		for b.Loop() {
			if _, err := owners.Apply(kind, "", live, wanted, "me", false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			managedfields.New(managedfields.Config{Table: table}).Update(kind, "", empty, benchPod(), "controller")
		}
	})
}

// BenchmarkCustomKind measures the record of a custom kind, whose objects have no Go type.
func BenchmarkCustomKind(b *testing.B) {
	w := newEggWorld(b, eggs)
	kind := w.kind("v1")
	const fields = `{metadata: {labels: {a: b}}, spec: {keyed: [{name: a, port: 80}, {name: b, port: 80}], set: [a, b], any: {a: {b: c}}}}`
	live := w.egg("v1", fields)
	w.owners.Update(kind, "", kind.New(), live, "controller")
	live.SetUID("u")
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			obj := w.egg("v1", fields)
			b.StartTimer()
			w.owners.Update(kind, "", kind.New(), obj, "controller")
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.apply(live, `{spec: {keyed: [{name: c, port: 80}]}}`, "me"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.serve(eggs)
			if _, err := w.apply(live, `{spec: {keyed: [{name: c, port: 80}]}}`, "me"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
