package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit/audittest"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	review = imagepolicyv1alpha1.ImageReview
	status = imagepolicyv1alpha1.ImageReviewStatus
)

// kubeconfig writes a kubeconfig file for a server, and returns its path.
func kubeconfig(t *testing.T, server string, bundle []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: images, user: us}}]
clusters: [{name: images, cluster: {server: %q, certificate-authority: ca.pem}}]
users: [{name: us, user: {token: secret}}]
`, server)
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pod returns a pod with two containers, an init container and an ephemeral one.
func pod(annotations map[string]string) *corev1.Pod {
	return admissiontest.Pod(func(p *corev1.Pod) {
		p.Annotations = annotations
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i:1"}}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "e:1"}}}
	})
}

// TestQuestions checks what a webhook gets, and which requests it is asked about.
func TestQuestions(t *testing.T) {
	var got []string
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked review
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		spec, _ := json.Marshal(asked.Spec)
		got = append(got, fmt.Sprintf("%s %s %s %s %s", r.URL.Path, r.Header.Get("Authorization"), asked.APIVersion, asked.Kind, spec))
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":true}}`)
	}))
	p, err := Plugin(fmt.Appendf(nil, "imagePolicy: {kubeConfigFile: %q, allowTTL: -1}", kubeconfig(t, server.URL+"/images", server.CABundle)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const start = "/images Bearer secret imagepolicy.k8s.io/v1alpha1 ImageReview "
	w := admissiontest.New()
	pods := scheme.For[*corev1.Pod](w.Table)
	for name, tc := range map[string]struct {
		req  *admission.Request
		want []string
	}{
		"a new pod": {
			&admission.Request{Object: pod(nil)},
			[]string{start + `{"containers":[{"image":"a:1"},{"image":"b:1"},{"image":"i:1"}],"namespace":"ns"}`},
		},
		"annotations": {
			&admission.Request{Object: pod(map[string]string{"my.image-policy.k8s.io/a": "b", "image-policy.k8s.io/c": "d", "e": "f"})},
			[]string{start + `{"containers":[{"image":"a:1"},{"image":"b:1"},{"image":"i:1"}],"annotations":{"my.image-policy.k8s.io/a":"b"},"namespace":"ns"}`},
		},
		"a changed pod": {
			&admission.Request{Verb: admission.Update, Object: pod(nil), Old: pod(nil)},
			[]string{start + `{"containers":[{"image":"a:1"},{"image":"b:1"},{"image":"i:1"}],"namespace":"ns"}`},
		},
		"ephemeral containers": {
			&admission.Request{Verb: admission.Update, Subresource: "ephemeralcontainers", Object: pod(nil), Old: pod(nil)},
			[]string{start + `{"containers":[{"image":"e:1"}],"namespace":"ns"}`},
		},
		"a status":       {&admission.Request{Verb: admission.Update, Subresource: "status", Object: pod(nil), Old: pod(nil)}, nil},
		"a deletion":     {&admission.Request{Verb: admission.Delete, Old: pod(nil)}, nil},
		"a binding":      {&admission.Request{Kind: pods, Namespace: "ns", Name: "p", Subresource: "binding", Object: &corev1.Binding{}}, nil},
		"another kind":   {&admission.Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, nil},
		"a pod template": {&admission.Request{Object: &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got = nil
			if _, err := w.Admit(t, tc.req, p); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the questions (-want +got):\n%s", diff)
			}
		})
	}
	_, err = w.Admit(t, &admission.Request{Kind: pods, Namespace: "ns", Name: "p", Object: &corev1.Node{}}, p)
	if !apierrors.IsBadRequest(err) || err.Error() != "Resource was marked with kind Pod but was unable to be converted" {
		t.Errorf("an object that is no pod: got %v", err)
	}
}

// TestAnswers checks what each answer does.
func TestAnswers(t *testing.T) {
	answer := func(status status) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			answer := review{Status: status}
			answer.SetGroupVersionKind(imagepolicyv1alpha1.SchemeGroupVersion.WithKind("ImageReview"))
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		}
	}
	const opened = "imagepolicywebhook.image-policy.k8s.io/failed-open"
	for _, tc := range []struct {
		name        string
		answer      http.HandlerFunc
		open        bool
		annotations map[string]string
		fault       string
	}{
		{"allowed", answer(status{Allowed: true}), false, nil, ""},
		{"allowed, with a reason", answer(status{Allowed: true, Reason: "x"}), false, nil, ""},
		{"refused", answer(status{}), true, nil, `pods "p" is forbidden: one or more images rejected by webhook backend`},
		{"refused, with a reason", answer(status{Reason: "not signed"}), true, nil, `pods "p" is forbidden: image policy webhook backend denied one or more images: not signed`},
		{
			"audit annotations", answer(status{Allowed: true, AuditAnnotations: map[string]string{"a": "b", "not valid": "c", "d/e": "f"}}), false,
			map[string]string{"imagepolicywebhook.image-policy.k8s.io/a": "b"}, "",
		},
		{
			"audit annotations of a refusal", answer(status{AuditAnnotations: map[string]string{"a": "b"}}), false,
			map[string]string{"imagepolicywebhook.image-policy.k8s.io/a": "b"}, "one or more images rejected by webhook backend",
		},
		{"an error", http.NotFound, false, nil, `pods "p" is forbidden: the server could not find the requested resource`},
		{"an error, open", http.NotFound, true, map[string]string{opened: "true"}, ""},
		{"an error that may pass", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false, nil, "has prevented the request from succeeding"},
		{"its own refusal", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no entry", http.StatusForbidden) }, false, nil, "no entry"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "\x00{") }, false, nil, "couldn't get version/kind; json parse error"},
		{"another kind", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Pod"}`) }, true, map[string]string{opened: "true"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := webhooktest.Start(t, tc.answer)
			document := fmt.Appendf(nil, "imagePolicy: {kubeConfigFile: %q, retryBackoff: 1, defaultAllow: %v}", kubeconfig(t, server.URL, server.CABundle), tc.open)
			p, err := Plugin(document, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			w := admissiontest.New()
			created := pod(nil)
			req := &admission.Request{
				Verb: admission.Create, Kind: scheme.For[*corev1.Pod](w.Table), Namespace: "ns", Name: "p", Object: created,
			}
			annotations := audittest.Annotations(t, func(ctx context.Context) { err = p.Validate(ctx, req) })
			if (err == nil) != (tc.fault == "") || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("got  %v\nwant %s", err, tc.fault)
			}
			if diff := cmp.Diff(tc.annotations, annotations); diff != "" {
				t.Errorf("the annotations of the audit log (-want +got):\n%s", diff)
			}
			seen := req.Object.GetAnnotations()["alpha.image-policy.k8s.io/failed-open"]
			if (seen != "") != (tc.annotations[opened] != "") || created.Annotations != nil {
				t.Errorf("later plugins see %q, and the pod to be stored has %v", seen, created.Annotations)
			}
		})
	}
}

// newTested returns a plugin that asks a function, and a function that has it validate a pod with an image.
func newTested(document string, ask asking) (validate func(ctx context.Context, image string) error, err error) {
	found, err := read([]byte(document))
	if err != nil {
		return nil, err
	}
	p := newPlugin(found, slog.New(slog.DiscardHandler), ask)
	kind := scheme.For[*corev1.Pod](scheme.New())
	return func(ctx context.Context, image string) error {
		created := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = image })
		return p.validate(ctx, &admission.Request{Verb: admission.Create, Kind: kind, Namespace: "ns", Name: "p", Object: created})
	}, nil
}

// TestKeptAnswers checks for how long an answer counts.
func TestKeptAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, document string
		answer         status
		keeps          time.Duration
	}{
		{"allowed, by default", "imagePolicy: {}", status{Allowed: true}, 5 * time.Minute},
		{"refused, by default", "imagePolicy: {}", status{}, 30 * time.Second},
		{"allowed", "imagePolicy: {allowTTL: 1800}", status{Allowed: true}, 30 * time.Minute},
		{"refused", "imagePolicy: {denyTTL: 1}", status{}, time.Second},
		{"allowed, never", "imagePolicy: {allowTTL: -1}", status{Allowed: true}, 0},
		{"refused, never", "imagePolicy: {denyTTL: -1}", status{}, 0},
		{"too large", "imagePolicy: {}", status{Allowed: true, Reason: strings.Repeat("x", largestAnswer+1)}, 0},
		{"too large annotations", "imagePolicy: {}", status{Allowed: true, AuditAnnotations: map[string]string{"a": strings.Repeat("x", largestAnswer)}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				validate, err := newTested(tc.document, func(_ context.Context, review *review) error {
					calls++
					review.Status = tc.answer
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				ask := func(image string, want int) {
					t.Helper()
					if err := validate(t.Context(), image); (err == nil) != tc.answer.Allowed {
						t.Errorf("got %v", err)
					}
					if calls != want {
						t.Errorf("got %d calls, want %d", calls, want)
					}
				}
				ask("a", 1)
				ask("b", 2)
				if tc.keeps > 0 {
					time.Sleep(tc.keeps)
					ask("a", 2)
				}
				time.Sleep(time.Nanosecond)
				ask("a", 3)
			})
		})
	}
}

// TestFailures checks when a webhook is asked again.
func TestFailures(t *testing.T) {
	busy, broken := apierrors.NewTooManyRequests("busy", 0), errors.New("broken")
	for _, tc := range []struct {
		name, document string
		errs           []error // of the calls; the last one repeats
		calls          int
		least, most    time.Duration
		fault          bool
	}{
		{"once", "imagePolicy: {}", []error{busy, nil}, 2, 500 * time.Millisecond, 600 * time.Millisecond, false},
		{"always", "imagePolicy: {}", []error{busy}, 5, 4062 * time.Millisecond, 4875 * time.Millisecond, true},
		{"without a pause", "imagePolicy: {retryBackoff: -1}", []error{busy}, 5, 0, 0, true},
		{"with another pause", "imagePolicy: {retryBackoff: 1000}", []error{busy, nil}, 2, time.Second, 1200 * time.Millisecond, false},
		{"for good", "imagePolicy: {}", []error{broken}, 1, 0, 0, true},
		{"too slow", "imagePolicy: {}", []error{context.DeadlineExceeded}, 1, patience, patience, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				validate, err := newTested(tc.document, func(ctx context.Context, review *review) error {
					err := tc.errs[min(calls, len(tc.errs)-1)]
					calls++
					if errors.Is(err, context.DeadlineExceeded) {
						<-ctx.Done()
						return ctx.Err()
					}
					review.Status.Allowed = err == nil
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err = validate(t.Context(), "a")
				took := time.Since(began)
				if (err != nil) != tc.fault || calls != tc.calls || took < tc.least || took > tc.most {
					t.Errorf("got %v after %d calls and %v, want %d calls and %v to %v", err, calls, took, tc.calls, tc.least, tc.most)
				}
			})
		})
	}
}

func TestFaultyConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"": "no config specified",
		"imagePolicy: {kubeConfigFile: /not/there}": "/not/there: no such file or directory",
		"imagePolicy: {kubeConfig: /not/there}":     `unknown field "imagePolicy.kubeConfig"`,
		"imagePolicy: {allowTTL: 1801}":             "imagePolicy.allowTTL: valid value is between 1s and 30m0s, got 30m1s",
		"imagePolicy: {denyTTL: -2}":                "imagePolicy.denyTTL: valid value is between 1s and 30m0s, got -2s",
		"imagePolicy: {retryBackoff: 300001}":       "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s, got 5m0.001s",
		"imagePolicy: {allowTTL: 36893488148}":      "imagePolicy.allowTTL: valid value is between",
		"imagePolicy: {allowTTL: 30s}":              "cannot unmarshal string",
	} {
		if _, err := Plugin([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
