package scheme

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestIgnored checks that there is a warning for each ignored field that is set, and for no other.
func TestIgnored(t *testing.T) {
	for _, tt := range []struct {
		gvk               schema.GroupVersionKind
		object, via, want string // want are the beginnings of the warnings.
	}{
		{kindOf("networking.k8s.io", "v1", "NetworkPolicy"), `{}`, "", "NetworkPolicy"},
		{kindOf("networking.k8s.io", "v1", "NetworkPolicy"), `{}`, "status", ""},
		{kindOf("autoscaling", "v1", "HorizontalPodAutoscaler"), `{}`, "", ""},
		{kindOf("autoscaling", "v2", "HorizontalPodAutoscaler"), `{}`, "", ""},
		{kindOf("apps", "v1", "StatefulSet"), `{}`, "scale", ""},
		{kindOf("apps", "v1", "Deployment"), `{}`, "scale", ""},
		{kindOf("apps", "v1", "Deployment"), `{}`, "", ""},
		{kindOf("", "v1", "Secret"), `{type: Opaque}`, "", ""},
		{kindOf("", "v1", "Secret"), `{type: kubernetes.io/service-account-token}`, "", ""},
		{kindOf("", "v1", "Service"), `{spec: {type: NodePort}}`, "", ""},
		{kindOf("", "v1", "Service"), `{spec: {type: LoadBalancer}}`, "", "spec.type LoadBalancer"},
		{kindOf("", "v1", "Pod"), `{spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}], volumes: [{emptyDir: {}}, {emptyDir: {medium: Memory, sizeLimit: 1Mi}}]}}`, "", ""},
		{kindOf("", "v1", "Pod"), `{spec: {volumes: [{configMap: {}}, {emptyDir: {sizeLimit: 1Mi}}]}}`, "", "spec.volumes[1].emptyDir.sizeLimit"},
		{kindOf("", "v1", "Pod"), `{spec: {volumes: [{emptyDir: {sizeLimit: 1Mi}}]}}`, "status", ""},
		{kindOf("", "v1", "Pod"), `{}`, "resize", "pods/resize"},
		{kindOf("", "v1", "Pod"), `{}`, "ephemeralcontainers", ""},
		{kindOf("", "v1", "Pod"), `{spec: {securityContext: {appArmorProfile: {type: Localhost}}}}`, "", ""},
		{kindOf("", "v1", "Pod"), `{spec: {securityContext: {appArmorProfile: {type: RuntimeDefault}, fsGroupChangePolicy: Always, seLinuxChangePolicy: Recursive}}}`, "",
			"spec.securityContext.seLinuxChangePolicy"},
		{kindOf("", "v1", "Pod"), `{metadata: {annotations: {kubernetes.io/egress-bandwidth: 1M}}, spec: {evictionResponders: [{}], schedulingGroup: {}}}`, "",
			"spec.schedulingGroup; spec.evictionResponders"},
		{kindOf("", "v1", "Pod"), `{spec: {initContainers: [{resources: {limits: {ephemeral-storage: 1Gi}}}], containers: [{securityContext: {appArmorProfile: {type: Unconfined}}, volumeMounts: [{bindMountOptions: [noexec]}]}]}}`, "",
			"spec.initContainers[0].resources.limits[ephemeral-storage]; spec.containers[0].volumeMounts[].bindMountOptions"},
		{kindOf("", "v1", "Pod"), `{spec: {containers: [{livenessProbe: {httpGet: {protocol: HTTP2}}}, {startupProbe: {grpc: {mode: TLS}}}, {lifecycle: {preStop: {httpGet: {protocol: HTTP2}}}}]}}`, "",
			"spec.containers[0].httpGet.protocol, spec.containers[2].httpGet.protocol; spec.containers[1].grpc.mode"},
		{kindOf("", "v1", "Pod"), `{spec: {containers: [{readinessProbe: {httpGet: {port: 1}}, livenessProbe: {grpc: {port: 1}}, lifecycle: {postStart: {sleep: {seconds: 1}}}}]}}`, "", ""},
		{kindOf("", "v1", "Pod"), `{spec: {initContainers: [{lifecycle: {postStart: {httpGet: {protocol: HTTP2}}}}], volumes: [{emptyDir: {mode: 1}}]}}`, "",
			"spec.initContainers[0].httpGet.protocol; spec.volumes[0].emptyDir.mode"},
		{kindOf("apps", "v1", "Deployment"), `{spec: {template: {spec: {volumes: [{secret: {defaultUser: 7}}]}}}}`, "", "spec.template.spec.volumes[0].defaultUser"},
		{kindOf("", "v1", "PodTemplate"), `{template: {spec: {schedulingGroup: {}}}}`, "", "template.spec.schedulingGroup"},
		{kindOf("batch", "v1", "CronJob"), `{spec: {jobTemplate: {spec: {template: {spec: {schedulingGroup: {}}}}}}}`, "", "spec.jobTemplate.spec.template.spec.schedulingGroup"},
		{kindOf("", "v1", "ReplicationController"), `{}`, "", ""},
		{kindOf("coordination.k8s.io", "v1", "Lease"), `{spec: {holderIdentity: a}}`, "", ""},
		{kindOf("coordination.k8s.io", "v1", "Lease"), `{spec: {strategy: OldestEmulationVersion, preferredHolder: b}}`, "", "spec.strategy; spec.preferredHolder"},
		{kindOf("", "v1", "Node"), `{spec: {podCIDR: 10.0.0.0/24}}`, "", ""},
	} {
		t.Run(tt.gvk.Kind+" "+tt.object+" "+tt.via, func(t *testing.T) {
			kind := New().Kind(tt.gvk)
			obj := kind.New()
			if err := yaml.UnmarshalStrict([]byte(tt.object), obj); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, warning := range kind.Ignored(obj, tt.via) {
				what, text, found := strings.Cut(warning, " is accepted but not acted on: ")
				if !found || text == "" || !IsIgnored(warning) || len(warning) > 256 {
					t.Errorf("got warning %q", warning)
				}
				got = append(got, what)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func kindOf(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// TestIgnoredIsBounded checks that a warning names only a few of many fields.
func TestIgnoredIsBounded(t *testing.T) {
	pod := &corev1.Pod{}
	for range 5000 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: {}}}})
	}
	const field = "resources.limits[ephemeral-storage]"
	want := "spec.containers[0]." + field + ", spec.containers[1]." + field + ", spec.containers[2]." + field + " and 4997 more is accepted but not acted on: "
	got := For[*corev1.Pod](New()).Ignored(pod, "")
	if len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q", got)
	}
}

// TestNotActedOnRows checks that each row belongs to a served kind and is complete.
func TestNotActedOnRows(t *testing.T) {
	served := map[string]bool{}
	for _, kind := range New().Kinds() {
		served[kind.Kind+"."+kind.Group] = true
		for _, row := range kind.NotActedOn {
			if row.Text == "" || row.By == "" || (row.Field != "") != (row.set != nil) {
				t.Errorf("%s has the row %+v", kind.Kind, row)
			}
			if row.Subresource != "" && !kind.HasSubresource(row.Subresource) {
				t.Errorf("%s has no subresource %s", kind.Kind, row.Subresource)
			}
		}
	}
	for name := range notActedOn() {
		if !served[name] {
			t.Errorf("there are rows for %s, which is not served", name)
		}
	}
}

func BenchmarkIgnored(b *testing.B) {
	kind := For[*corev1.Pod](New())
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2), Volumes: make([]corev1.Volume, 2)}}
	for b.Loop() {
		if len(kind.Ignored(pod, "")) > 0 {
			b.Fatal("a plain pod causes a warning")
		}
	}
}
