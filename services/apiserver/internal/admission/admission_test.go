package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what plugins find; the default account appears at a time.
type world struct {
	account   corev1.ServiceAccount
	appearsAt time.Time
}

func (w *world) Get(_ context.Context, kind *scheme.Kind, _, name string) (scheme.Object, error) {
	switch {
	case kind.Resource == "namespaces":
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	case kind.Resource == "serviceaccounts" && name == "default" && !time.Now().Before(w.appearsAt):
		return &w.account, nil
	}
	return nil, apierrors.NewNotFound(kind.GroupResource(), name)
}

func (w *world) Live(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	return w.Get(ctx, kind, namespace, name)
}

func (w *world) List(context.Context, *scheme.Kind, string) ([]scheme.Object, error) {
	return nil, nil
}

func (w *world) LiveList(context.Context, *scheme.Kind, string) ([]scheme.Object, error) {
	return nil, nil
}

func (w *world) Update(context.Context, *scheme.Kind, string, string, func(scheme.Object) (scheme.Object, error)) (scheme.Object, error) {
	return nil, errors.ErrUnsupported
}

func admit(t *testing.T, w *world, pod *corev1.Pod) error {
	t.Helper()
	table := scheme.New()
	chain, err := New(Config{Table: table, Lookup: w})
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{Verb: Create, Kind: scheme.For[*corev1.Pod](table), Namespace: "default", Name: pod.Name, Object: pod}
	if err := chain.Mutate(t.Context(), req); err != nil {
		return err
	}
	return chain.Validate(t.Context(), req)
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestThePodOfANewNamespaceWaitsForItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := admit(t, &world{appearsAt: time.Now().Add(time.Second)}, pod()); err != nil {
			t.Errorf("a pod a second early: %v", err)
		}
		err := admit(t, &world{appearsAt: time.Now().Add(time.Hour)}, pod())
		if !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), `error looking up service account default/default: serviceaccount "default" not found`) {
			t.Errorf("a pod without an account: %v", err)
		}
	})
}

func TestToken(t *testing.T) {
	for _, tc := range []struct {
		name    string
		account corev1.ServiceAccount
		pod     *corev1.Pod
		mounted bool
	}{
		{"as usual", corev1.ServiceAccount{}, pod(), true},
		{"the account says no", corev1.ServiceAccount{AutomountServiceAccountToken: new(false)}, pod(), false},
		{"the pod knows better", corev1.ServiceAccount{AutomountServiceAccountToken: new(false)}, pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }), true},
		{"the pod says no", corev1.ServiceAccount{}, pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(false) }), false},
		{"the path is taken", corev1.ServiceAccount{}, pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: tokenPath}}
		}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := admit(t, &world{account: tc.account}, tc.pod); err != nil {
				t.Fatal(err)
			}
			if mounted := len(tc.pod.Spec.Volumes) == 1; mounted != tc.mounted {
				t.Errorf("the volumes are %+v", tc.pod.Spec.Volumes)
			}
		})
	}
}

func TestPullSecretsComeFromTheAccount(t *testing.T) {
	p := pod()
	account := corev1.ServiceAccount{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}
	if err := admit(t, &world{account: account}, p); err != nil || len(p.Spec.ImagePullSecrets) != 1 {
		t.Errorf("%v, %+v", err, p.Spec.ImagePullSecrets)
	}
}

func TestRefusedPods(t *testing.T) {
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{mirrorPod: "x"} }
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"priority class", pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }), "no PriorityClass with name high was found"},
		{"priority", pod(func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) }), "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0"},
		{"mirror pod with an account", pod(mirror, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }), "a mirror pod may not reference service accounts"},
		{"mirror pod with a secret", pod(mirror, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}}
		}), "a mirror pod may not reference secrets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admit(t, &world{}, tc.pod)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `pods "p" is forbidden: `+tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestDefaultsOfAPod(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.PriorityClassName = "system-node-critical"
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	})
	if err := admit(t, &world{}, p); err != nil {
		t.Fatal(err)
	}
	if *p.Spec.Priority != 2000001000 || *p.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("the priority is %d, %s", *p.Spec.Priority, *p.Spec.PreemptionPolicy)
	}
	if len(p.Spec.Tolerations) != 2 || p.Spec.Tolerations[0].TolerationSeconds != nil || p.Spec.Tolerations[1].Key != corev1.TaintNodeUnreachable {
		t.Errorf("the tolerations are %+v", p.Spec.Tolerations)
	}
}
