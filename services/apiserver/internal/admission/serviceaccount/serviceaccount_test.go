package serviceaccount

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin(w.Objects()))
}

func account(change func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}}
	change(a)
	return a
}

func TestThePodOfANewNamespaceWaitsForItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := admissiontest.New()
		late := account(func(*corev1.ServiceAccount) {})
		w.Appear(late, time.Second)
		if _, err := try(t, w, &admission.Request{Object: admissiontest.Pod()}); err != nil {
			t.Errorf("a pod a second before its account: got %v", err)
		}
		w.Appear(late, time.Hour)
		_, err := try(t, w, &admission.Request{Object: admissiontest.Pod()})
		admissiontest.Refused(t, err, `error looking up service account ns/default: serviceaccount "default" not found`)
	})
}

func TestToken(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name    string
		account *bool
		pod     *corev1.Pod
		mounted bool
	}{
		{"the default", nil, admissiontest.Pod(), true},
		{"the account opts out", &no, admissiontest.Pod(), false},
		{"the pod opts in", &no, admissiontest.Pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }), true},
		{"the pod opts out", &yes, admissiontest.Pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no }), false},
		{"the path is in use", nil, admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: tokenPath}}
		}), false},
		{"a mirror pod", nil, admissiontest.Pod(func(p *corev1.Pod) { p.Annotations = map[string]string{mirrorPod: "x"} }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New(account(func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = tc.account }))
			if _, err := try(t, w, &admission.Request{Object: tc.pod}); err != nil {
				t.Fatal(err)
			}
			if mounted := len(tc.pod.Spec.Volumes) == 1; mounted != tc.mounted {
				t.Errorf("the volumes are %+v", tc.pod.Spec.Volumes)
			}
		})
	}
}

func TestTokenVolumeOfAnotherPodIsKept(t *testing.T) {
	p := admissiontest.Pod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-abcde", VolumeSource: tokenVolume()}}
		p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	})
	if _, err := try(t, admissiontest.New(), &admission.Request{Object: p}); err != nil {
		t.Fatal(err)
	}
	if len(p.Spec.Volumes) != 1 || p.Spec.Containers[0].VolumeMounts[0].Name != "kube-api-access-abcde" || len(p.Spec.InitContainers[0].VolumeMounts) != 1 {
		t.Errorf("got %+v", p.Spec)
	}
}

func TestPullSecretsComeFromTheAccount(t *testing.T) {
	w := admissiontest.New(account(func(a *corev1.ServiceAccount) { a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }))
	p := admissiontest.Pod()
	if _, err := try(t, w, &admission.Request{Object: p}); err != nil || len(p.Spec.ImagePullSecrets) != 1 {
		t.Errorf("got %v, pull secrets %+v", err, p.Spec.ImagePullSecrets)
	}
	own := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "own"}} })
	if _, err := try(t, w, &admission.Request{Object: own}); err != nil || own.Spec.ImagePullSecrets[0].Name != "own" {
		t.Errorf("got %v, pull secrets %+v", err, own.Spec.ImagePullSecrets)
	}
}

func TestMirrorPods(t *testing.T) {
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{mirrorPod: "x"} }
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{VolumeSource: source}} }
	}
	projected := func(p corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}})
	}
	const secrets = "a mirror pod may not reference secrets"
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"plain", func(*corev1.Pod) {}, ""},
		{"an account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }, "a mirror pod may not reference service accounts"},
		{"a secret volume", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), secrets},
		{"a projected secret", projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}), secrets},
		{"a pull secret", func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }, secrets},
		{"a secret in the environment", func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		}, secrets},
		{"a CSI volume's secret", volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{}}}), secrets},
		{"a config map", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), ""},
		{"a token", projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), "a mirror pod may not use ServiceAccountToken volume projections"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(), &admission.Request{Object: admissiontest.Pod(mirror, tc.pod)})
			admissiontest.Refused(t, err, tc.want)
		})
	}
}

func TestAccountsThatLimitSecrets(t *testing.T) {
	limiting := account(func(a *corev1.ServiceAccount) {
		a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
		a.Secrets = []corev1.ObjectReference{{Name: "mine"}}
		a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	})
	env := func(secret string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}}
	}
	from := func(secret string) []corev1.EnvFromSource {
		return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
	}
	const because = "is not allowed because service account default does not reference that "
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"listed secrets", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = env("mine")
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}}}
		}, ""},
		{"an unlisted secret in a volume", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}}}
		}, `volume with secret.secretName="other" ` + because + "secret"},
		{"an unlisted secret in a variable", func(p *corev1.Pod) { p.Spec.Containers[0].Env = env("other") }, `container c with envVar E referencing secret.secretName="other" ` + because + "secret"},
		{"an unlisted secret in an init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Env: env("other")}}
		}, `init container i with envVar E referencing secret.secretName="other" ` + because + "secret"},
		{"an unlisted secret in envFrom", func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = from("other") }, `container c with envFrom referencing secret.secretName="other" ` + because + "secret"},
		{"an unlisted pull secret", func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}, {Name: "other"}}
		}, `imagePullSecrets[1].name="other" ` + because + "imagePullSecret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(limiting), &admission.Request{Object: admissiontest.Pod(tc.pod)})
			admissiontest.Refused(t, err, tc.want)
		})
	}
	t.Run("an ephemeral container", func(t *testing.T) {
		p := admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "default"
			p.Spec.Containers[0].Env = env("other") // Not checked, since the container already exists.
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", EnvFrom: from("other")}}}
		})
		_, err := try(t, admissiontest.New(limiting), &admission.Request{Verb: admission.Update, Object: p, Old: admissiontest.Pod(), Subresource: "ephemeralcontainers"})
		admissiontest.Refused(t, err, `ephemeral container e with envFrom referencing secret.secretName="other" `+because+"secret")
	})
	t.Run("an account that does not limit secrets", func(t *testing.T) {
		p := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = env("other") })
		if _, err := try(t, admissiontest.New(), &admission.Request{Object: p}); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAccountThatThereIsNot(t *testing.T) {
	_, err := try(t, admissiontest.New(), &admission.Request{Object: admissiontest.Pod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" })})
	if !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), `error looking up service account ns/x: serviceaccount "x" not found`) {
		t.Errorf("got %v", err)
	}
}
