package legacytokencleaner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// period is the period of the tests, in days.
const period = 6

// ago returns a day, as labels have it. In a bubble it is midnight.
func ago(days int) string { return time.Now().UTC().AddDate(0, 0, -days).Format(time.DateOnly) }

func tracked(since string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": since},
	}
}

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "a1"},
		Secrets:    []corev1.ObjectReference{{Name: "other"}, {Name: "s"}},
	}
}

// old returns a token that is older than the period.
func old(labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "s", UID: "s1", Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().AddDate(0, 0, -10*period)),
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "a1"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

func labels(used, invalid string) map[string]string {
	l := map[string]string{}
	if used != "" {
		l[lastUsedLabel] = used
	}
	if invalid != "" {
		l[invalidSinceLabel] = invalid
	}
	return l
}

func pod(spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: spec}
}

// scene is what there is when the controller looks.
type scene struct {
	tracking *corev1.ConfigMap
	account  *corev1.ServiceAccount
	secret   *corev1.Secret
	pod      *corev1.Pod
}

func (s *scene) run(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t, s.secret)
	if s.account != nil {
		p.Load(s.account)
	}
	if s.pod != nil {
		p.Load(s.pod)
	}
	if s.tracking != nil {
		p.Load(s.tracking)
	}
	p.Allow("get /configmaps", "patch delete /secrets", "list /pods") // Informers may list pods.
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, period*24*time.Hour) })
	p.Start()
	settle()
	return p
}

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestTokens checks what becomes of one token. The cases are those of Kubernetes.
func TestTokens(t *testing.T) {
	const kept, marked, deleted = "kept", "marked", "deleted"
	mounts := corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}}
	for name, c := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"never used":                  {func(*scene) {}, marked},
		"used long ago":               {func(s *scene) { s.secret.Labels = labels(ago(period+1), "") }, marked},
		"used a period ago":           {func(s *scene) { s.secret.Labels = labels(ago(period), "") }, kept},
		"used lately":                 {func(s *scene) { s.secret.Labels = labels(ago(1), "") }, kept},
		"used on an invalid day":      {func(s *scene) { s.secret.Labels = labels("2022-12-27-1", "") }, kept},
		"marked on an invalid day":    {func(s *scene) { s.secret.Labels = labels("", "2022-12-29-1") }, marked},
		"marked lately":               {func(s *scene) { s.secret.Labels = labels("", ago(1)) }, kept},
		"marked a period ago":         {func(s *scene) { s.secret.Labels = labels("", ago(period)) }, kept},
		"marked long ago":             {func(s *scene) { s.secret.Labels = labels("", ago(period+1)) }, deleted},
		"marked and used long ago":    {func(s *scene) { s.secret.Labels = labels(ago(period+9), ago(period+1)) }, deleted},
		"used since it was marked":    {func(s *scene) { s.secret.Labels = labels(ago(2), ago(period+1)) }, kept},
		"nothing is tracked":          {func(s *scene) { s.tracking = nil }, kept},
		"tracked since an unsaid day": {func(s *scene) { s.tracking.Data = nil }, kept},
		"tracked since no day":        {func(s *scene) { s.tracking.Data["since"] = "2022-12-27-1" }, kept},
		"tracked for a period":        {func(s *scene) { s.tracking.Data["since"] = ago(period) }, kept},
		"tracked for longer":          {func(s *scene) { s.tracking.Data["since"] = ago(period + 1) }, marked},
		"of another type":             {func(s *scene) { s.secret.Type = corev1.SecretTypeOpaque }, kept},
		"not listed":                  {func(s *scene) { s.account.Secrets = nil }, kept},
		"created lately":              {func(s *scene) { s.secret.CreationTimestamp = metav1.NewTime(time.Now().AddDate(0, 0, -period)) }, kept},
		"being deleted": {func(s *scene) {
			now := metav1.Now()
			s.secret.DeletionTimestamp, s.secret.Finalizers = &now, []string{"example.com/hold"}
		}, kept},
		"of no account":               {func(s *scene) { s.account = nil }, kept},
		"of an account of before":     {func(s *scene) { s.account.UID = "a2" }, kept},
		"of an account without a UID": {func(s *scene) { delete(s.secret.Annotations, corev1.ServiceAccountUIDKey) }, marked},
		"of an unnamed account":       {func(s *scene) { delete(s.secret.Annotations, corev1.ServiceAccountNameKey) }, kept},
		"mounted":                     {func(s *scene) { s.pod = pod(mounts) }, kept},
		"mounted elsewhere": {func(s *scene) {
			s.pod = pod(mounts)
			s.pod.Namespace = "other"
		}, marked},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scene{tracking: tracked(ago(5 * period)), account: account(), secret: old(nil)}
			c.change(s)
			before := s.secret.Labels[invalidSinceLabel]
			p := s.run(t)
			got, secrets := deleted, controltest.List[*corev1.Secret](p)
			if len(secrets) > 0 {
				switch secrets[0].Labels[invalidSinceLabel] {
				case before:
					got = kept
				case ago(0):
					got = marked
				default:
					got = secrets[0].Labels[invalidSinceLabel]
				}
			}
			if got != c.want {
				t.Errorf("%s: it is %s, want %s", name, got, c.want)
			}
		})
	}
}

// TestTheLifeOfAToken checks the days on which an unused token is marked and deleted.
func TestTheLifeOfAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{tracking: tracked(ago(0)), account: account(), secret: old(nil)}
		p := s.run(t)
		mark, gone := 0, 0
		for day := 0; day <= 3*period; day++ {
			switch secrets := controltest.List[*corev1.Secret](p); {
			case len(secrets) == 0 && gone == 0:
				gone = day
			case len(secrets) > 0 && secrets[0].Labels[invalidSinceLabel] != "" && mark == 0:
				mark = day
			}
			time.Sleep(24 * time.Hour)
		}
		if mark != period+1 || gone != 2*period+2 {
			t.Errorf("marked on day %d and deleted on day %d, want %d and %d", mark, gone, period+1, 2*period+2)
		}
	})
}

// TestAFailureIsTriedAgain checks that one write that fails neither keeps others from being done nor waits
// for the next day.
func TestAFailureIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{tracking: tracked(ago(5 * period)), account: account(), secret: old(nil)}
		other := old(labels("", ago(2*period)))
		other.Name, other.UID = "other", types.UID("s2")
		fails := errors.New("not now")
		p := controltest.New(t, s.tracking, s.account, s.secret, other)
		p.Fail(func(call client.Call) error {
			if call.Verb == "patch" {
				return fails
			}
			return nil
		})
		p.Declare(func(d controller.Deps) *controller.Spec { return New(d, period*24*time.Hour) })
		p.Start()
		settle()
		if secrets := controltest.List[*corev1.Secret](p); len(secrets) != 1 || len(secrets[0].Labels) > 0 {
			t.Errorf("got %+v, want only the one whose mark failed", secrets)
		}
		p.Fail(nil)
		time.Sleep(retry)
		synctest.Wait()
		if got := controltest.Get[*corev1.Secret](p, "ns", "s").Labels[invalidSinceLabel]; got != ago(0) {
			t.Errorf("it is marked %q", got)
		}
	})
}
