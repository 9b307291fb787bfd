package agent_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// cut makes the apiserver entirely unavailable to the agents: every call fails and no watch
// continues.
func (w *world) cut() {
	w.away.Store(true)
	w.api.CloseWatches()
}

// referred returns the objects to which referring's pod refers.
func referred() []scheme.Object {
	return []scheme.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"mode": "fast"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password"}, Data: map[string][]byte{"word": []byte("hush")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 5432}}},
		},
	}
}

// referring returns a pod that needs everything a pod can need of the API: variables and files from
// ConfigMaps and Secrets, addresses of Services, a token, a pull secret. Some of the ConfigMaps and
// Secrets do not exist.
func referring(name string) *corev1.Pod {
	optional := true
	pod := newPod(name)
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "absent"}, Optional: &optional}},
		}}}},
	}
	c := &pod.Spec.Containers[0]
	c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	c.Env = []corev1.EnvVar{{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "word",
	}}}}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "secret", MountPath: "/secret", ReadOnly: true}, {Name: "token", MountPath: "/token", ReadOnly: true},
	}
	return pod
}

// TestAwayApiserver: while the apiserver is entirely unavailable, for longer than any answer is
// cached, containers are restarted; statuses of that time arrive later.
func TestAwayApiserver(t *testing.T) {
	w := newWorld(t, referred()...)
	w.start()
	w.create(referring("web"))
	w.until("web", "ready", ready)
	w.cut()
	const restarts = 2 // the second comes after a back-off of 10 s
	for attempt := uint32(1); attempt <= restarts; attempt++ {
		for _, c := range w.containers() {
			if err := w.runtime.StopContainer(t.Context(), c.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
		w.eventually(fmt.Sprintf("the container runs for the time %d", attempt+1), func() string {
			for _, c := range w.containers() {
				if c.State == runtime.Running && c.Attempt == attempt {
					return ""
				}
			}
			return fmt.Sprintf("%+v", w.containers())
		})
	}
	if got := w.get("web").Status.ContainerStatuses[0].RestartCount; got != 0 {
		t.Errorf("the restart count %d arrived while the apiserver was away", got)
	}
	w.away.Store(false)
	w.until("web", "restarted", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == restarts && ready(p)
	})
}
