package env_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// references are the objects in the API.
type references struct{ services []*corev1.Service }

func (references) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if name != "settings" {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"mode": "fast", "bad=key": "x", "a.b": "dots"}}, nil
}

func (references) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if name != "password" {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return &corev1.Secret{Data: map[string][]byte{"value": []byte("hush")}}, nil
}

func (r references) Services(_ context.Context, namespace string) ([]*corev1.Service, error) {
	if namespace != "default" {
		return nil, nil
	}
	return r.services, nil
}

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1", HostIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
}

func TestBuild(t *testing.T) {
	optional := true
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	cm := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	cases := []struct {
		name string
		c    corev1.Container
		want []string
		err  string
	}{
		{name: "values expand in order", c: corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(C)-$$(A)"}, {Name: "C", Value: "3"}, {Name: "A", Value: "$(A)0"},
		}}, want: []string{"A=10", "B=1-$(C)-$(A)", "C=3"}},
		{name: "fields", c: corev1.Container{Env: []corev1.EnvVar{
			{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
			{Name: "IPS", ValueFrom: field("status.podIPs")}, {Name: "HOST", ValueFrom: field("status.hostIP")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
		}}, want: []string{"NAME=web", "LABEL=x", "IPS=10.0.0.1,fd00::1", "HOST=192.0.2.1", "NODE=n"}},
		{name: "an unknown field", c: corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: field("spec.color")}}}, err: "unsupported fieldPath: spec.color"},
		{name: "references", c: corev1.Container{Env: []corev1.EnvVar{
			{Name: "MODE", ValueFrom: cm("settings", "mode", nil)},
			{Name: "NONE", ValueFrom: cm("settings", "none", &optional)}, {Name: "NIL", ValueFrom: cm("gone", "x", &optional)},
			{Name: "PW", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "value"}}},
		}}, want: []string{"MODE=fast", "PW=hush"}},
		{name: "a missing key", c: corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: cm("settings", "none", nil)}}}, err: "couldn't find key none in ConfigMap default/settings"},
		{name: "a missing ConfigMap", c: corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: cm("gone", "x", nil)}}}, err: `configmaps "gone" not found`},
		{name: "all of a ConfigMap", c: corev1.Container{
			EnvFrom: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			Env:     []corev1.EnvVar{{Name: "SEEN", Value: "$(P_mode)"}},
		}, want: []string{"P_a.b=dots", "P_mode=fast", "SEEN=fast"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.c.Name = "c"
			got, err := env.Build(t.Context(), testPod(), &c.c, references{}, nil)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lines(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func lines(e env.Environment) []string {
	var out []string
	for _, v := range e.Vars {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

func TestResources(t *testing.T) {
	pod := testPod()
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}
	ref := func(what, divisor string) *corev1.EnvVarSource {
		s := &corev1.ResourceFieldSelector{Resource: what}
		if divisor != "" {
			s.Divisor = resource.MustParse(divisor)
		}
		return &corev1.EnvVarSource{ResourceFieldRef: s}
	}
	c := pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "CPU", ValueFrom: ref("requests.cpu", "")}, {Name: "MILLI", ValueFrom: ref("requests.cpu", "1m")},
		{Name: "MEM", ValueFrom: ref("limits.memory", "1Mi")}, {Name: "NODE", ValueFrom: ref("limits.cpu", "")},
	}
	got, err := env.Build(t.Context(), pod, &c, references{}, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"CPU=1", "MILLI=250", "MEM=64", "NODE=4"}, lines(got)); diff != "" {
		t.Error(diff)
	}
}

// TestResourcesOfEphemeralContainers: an ephemeral container has no resources of its own, and others
// cannot name it.
func TestResourcesOfEphemeralContainers(t *testing.T) {
	pod := testPod()
	variable := func(container, what string) corev1.EnvVar {
		return corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: what}}}
	}
	for _, c := range []struct {
		variable corev1.EnvVar
		want     string
	}{
		{variable("", "limits.cpu"), "V=4"}, {variable("", "requests.cpu"), "V=0"}, {variable("c", "limits.cpu"), "V=4"},
		{variable("debug", "limits.cpu"), "container debug not found"},
	} {
		own := corev1.EphemeralContainerCommon{Name: "debug", Env: []corev1.EnvVar{c.variable}}
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: own}}
		got, err := env.Build(t.Context(), pod, (*corev1.Container)(&own), references{}, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")})
		if err != nil && err.Error() != c.want || err == nil && strings.Join(lines(got), " ") != c.want {
			t.Errorf("%v: got %v, %v, want %s", c.variable.ValueFrom.ResourceFieldRef, got, err, c.want)
		}
	}
}

func TestServices(t *testing.T) {
	service := func(name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	refs := references{services: []*corev1.Service{
		service("kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}),
		service("my-db", "10.96.0.2", corev1.ServicePort{Port: 5432}),
		service("headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 1}),
	}}
	pod := testPod()
	c := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "MY_DB_SERVICE_PORT", Value: "own"}, {Name: "URL", Value: "$(MY_DB_PORT)"}}}
	got, err := env.Build(t.Context(), pod, &c, refs, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := got.Map()
	for name, want := range map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
		"MY_DB_SERVICE_PORT": "own", "MY_DB_PORT_5432_TCP": "tcp://10.96.0.2:5432", "URL": "tcp://10.96.0.2:5432",
	} {
		if m[name] != want {
			t.Errorf("%s=%q, want %q", name, m[name], want)
		}
	}
	no := false
	pod.Spec.EnableServiceLinks = &no
	got, err = env.Build(t.Context(), pod, &c, refs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(lines(got), " "); strings.Contains(text, "MY_DB_SERVICE_HOST") || !strings.Contains(text, "KUBERNETES_SERVICE_HOST") {
		t.Errorf("without links: %s", text)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)", "$(", "$", "$()", "a$(B)c", "$($(A))"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := env.Expand(s, map[string]string{"A": "1"})
		if !strings.Contains(s, "$") && got != s {
			t.Errorf("%q became %q", s, got)
		}
		if got := env.Expand(strings.ReplaceAll(s, "$", "$$"), map[string]string{"A": "1"}); got != s {
			t.Errorf("escaped %q became %q", s, got)
		}
	})
}
