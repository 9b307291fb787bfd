package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is an in-memory runtime with images.
type node struct {
	mu      sync.Mutex
	present map[string]runtime.Image
	// pull handles a pull; by default it takes a second and succeeds.
	pull    func(ref string, auth runtime.Auth) (string, error)
	inspect error
	pulls   []string
	now     int
	most    int
}

func (n *node) ImageStatus(_ context.Context, ref string) (runtime.Image, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inspect != nil {
		return runtime.Image{}, n.inspect
	}
	image, ok := n.present[ref]
	if !ok {
		return runtime.Image{}, fmt.Errorf("reading: %w", runtime.ErrNotFound)
	}
	return image, nil
}

func (n *node) PullImage(ctx context.Context, ref string, auth runtime.Auth, _ runtime.SandboxConfig) (string, error) {
	n.mu.Lock()
	n.pulls = append(n.pulls, strings.TrimSuffix(ref+" "+auth.Username, " "))
	n.now++
	n.most = max(n.most, n.now)
	n.mu.Unlock()
	var err error
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now--
	if err != nil {
		return "", err
	}
	if n.pull != nil {
		return n.pull(ref, auth)
	}
	n.present["sha256:"+ref] = runtime.Image{ID: "sha256:" + ref, Size: 42}
	return "sha256:" + ref, nil
}

// events collects Events as "Type Reason Message".
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) take(eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, eventType+" "+reason+" "+message)
}

func secret(name, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(content)},
	}
}

func TestEnsure(t *testing.T) {
	here := func() map[string]runtime.Image {
		return map[string]runtime.Image{"nginx:1.14.2": {ID: "sha256:here"}, "nginx:latest": {ID: "sha256:latest"}}
	}
	unavailable := fmt.Errorf("%w: rpc error", runtime.ErrRegistryUnavailable)
	for _, test := range []struct {
		name    string
		pull    func(ref string, auth runtime.Auth) (string, error)
		inspect error
		request Request
		ref     string
		fault   Error
		events  []string
		pulls   []string
	}{
		{name: "present", request: Request{Image: "nginx:1.14.2"}, ref: "sha256:here",
			events: []string{`Normal Pulled Container image "nginx:1.14.2" already present on machine`}},
		{name: "absent", request: Request{Image: "nginx:1.16.1"}, ref: "sha256:nginx:1.16.1", pulls: []string{"nginx:1.16.1"},
			events: []string{`Normal Pulling Pulling image "nginx:1.16.1"`,
				`Normal Pulled Successfully pulled image "nginx:1.16.1" in 1s (1s including waiting). Image size: 42 bytes.`}},
		{name: "latest is always pulled", request: Request{Image: "nginx"}, ref: "sha256:nginx:latest", pulls: []string{"nginx:latest"},
			events: []string{`Normal Pulling Pulling image "nginx"`,
				`Normal Pulled Successfully pulled image "nginx" in 1s (1s including waiting). Image size: 42 bytes.`}},
		{name: "policy Always", request: Request{Image: "nginx:1.14.2", Policy: corev1.PullAlways}, ref: "sha256:nginx:1.14.2", pulls: []string{"nginx:1.14.2"},
			events: []string{`Normal Pulling Pulling image "nginx:1.14.2"`,
				`Normal Pulled Successfully pulled image "nginx:1.14.2" in 1s (1s including waiting). Image size: 42 bytes.`}},
		{name: "policy Never, present", request: Request{Image: "nginx:1.14.2", Policy: corev1.PullNever}, ref: "sha256:here",
			events: []string{`Normal Pulled Container image "nginx:1.14.2" already present on machine`}},
		{name: "policy Never, absent", request: Request{Image: "redis", Policy: corev1.PullNever},
			fault:  Error{Reason: "ErrImageNeverPull", Message: `Container image "redis" is not present with pull policy of Never`},
			events: []string{`Warning ErrImageNeverPull Container image "redis" is not present with pull policy of Never`}},
		{name: "bad name", request: Request{Image: "Nginx:1"},
			fault:  Error{Reason: "InvalidImageName", Message: `Failed to apply default image tag "Nginx:1": couldn't parse image name "Nginx:1": invalid reference format: repository name (library/Nginx) must be lowercase`},
			events: []string{`Warning InspectFailed Failed to apply default image tag "Nginx:1": couldn't parse image name "Nginx:1": invalid reference format: repository name (library/Nginx) must be lowercase`}},
		{name: "runtime fails", inspect: errors.New("no socket"), request: Request{Image: "redis:7"},
			fault:  Error{Reason: "ImageInspectError", Message: `Failed to inspect image "redis:7": no socket`},
			events: []string{`Warning InspectFailed Failed to inspect image "redis:7": no socket`}},
		{name: "pull fails", pull: func(string, runtime.Auth) (string, error) { return "", errors.New("no such tag") },
			request: Request{Image: "redis:7"}, pulls: []string{"redis:7"},
			fault:  Error{Reason: "ErrImagePull", Message: "no such tag", RetryAfter: 10 * time.Second},
			events: []string{`Normal Pulling Pulling image "redis:7"`, `Warning Failed Failed to pull image "redis:7": no such tag`}},
		{name: "registry is down", pull: func(string, runtime.Auth) (string, error) { return "", unavailable },
			request: Request{Image: "redis:7"}, pulls: []string{"redis:7"},
			fault: Error{Reason: "RegistryUnavailable", RetryAfter: 10 * time.Second,
				Message: "image pull failed for redis:7 because the registry is unavailable: RegistryUnavailable: rpc error"},
			events: []string{`Normal Pulling Pulling image "redis:7"`, `Warning Failed Failed to pull image "redis:7": RegistryUnavailable: rpc error`}},
		{name: "credentials are tried in turn", pull: func(_ string, auth runtime.Auth) (string, error) {
			if auth.Username != "general" {
				return "", errors.New("401")
			}
			return "sha256:private", nil
		}, request: Request{Image: "registry.example.com/team/app:1", Secrets: []*corev1.Secret{
			secret("a", `{"auths":{"registry.example.com":{"username":"general","password":"p"},"other.example.com":{"username":"other"}}}`),
			secret("b", `{"auths":{"https://registry.example.com/team":{"username":"special","password":"p"}}}`),
		}}, ref: "sha256:private", pulls: []string{"registry.example.com/team/app:1 special", "registry.example.com/team/app:1 general"},
			events: []string{`Normal Pulling Pulling image "registry.example.com/team/app:1"`,
				`Normal Pulled Successfully pulled image "registry.example.com/team/app:1" in 2s (2s including waiting). Image size: 0 bytes.`}},
		{name: "a damaged secret is a warning", request: Request{Image: "redis:7", Secrets: []*corev1.Secret{secret("bad", `{"auths":{"x":{"auth":"%%"}}}`)}},
			ref: "sha256:redis:7", pulls: []string{"redis:7"},
			events: []string{`Normal Pulling Pulling image "redis:7"`,
				`Warning FailedToRetrieveImagePullSecret reading the image pull secret default/bad: registry "x": its auth is not valid base64`,
				`Normal Pulled Successfully pulled image "redis:7" in 1s (1s including waiting). Image size: 42 bytes.`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{present: here(), pull: test.pull, inspect: test.inspect}
				var got events
				test.request.Pod = "uid"
				ref, err := New(Config{Runtime: n}).Ensure(t.Context(), test.request, got.take)
				var fault Error
				if e, ok := errors.AsType[*Error](err); ok {
					fault = *e
					fault.Err = nil
				}
				if ref != test.ref || !cmp.Equal(fault, test.fault) {
					t.Errorf("got %q and %+v, want %q and %+v", ref, fault, test.ref, test.fault)
				}
				if diff := cmp.Diff(test.events, got.all); diff != "" {
					t.Errorf("events: %s", diff)
				}
				if diff := cmp.Diff(test.pulls, n.pulls); diff != "" {
					t.Errorf("pulls: %s", diff)
				}
			})
		})
	}
}

// TestBackOff: a pod waits longer with each failure, another pod does not wait for it, and a
// success resets the wait.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		n := &node{present: map[string]runtime.Image{}}
		n.pull = func(ref string, _ runtime.Auth) (string, error) {
			if fail {
				return "", errors.New("down")
			}
			return "sha256:" + ref, nil
		}
		images := New(Config{Runtime: n})
		var got events
		ensure := func(pod string) *Error {
			_, err := images.Ensure(t.Context(), Request{Pod: "uid", Image: "redis:7"}, got.take)
			if pod != "uid" {
				_, err = images.Ensure(t.Context(), Request{Pod: "other", Image: "redis:7"}, got.take)
			}
			e, _ := errors.AsType[*Error](err)
			return e
		}
		for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			wait *= time.Second
			if e := ensure("uid"); e == nil || e.Reason != ReasonErrImagePull || e.RetryAfter != wait {
				t.Fatalf("got %+v, want a wait of %v", e, wait)
			}
			time.Sleep(wait - time.Second)
			e := ensure("uid")
			if e == nil || e.Reason != ReasonImagePullBackOff || e.RetryAfter != time.Second ||
				e.Message != `Back-off pulling image "redis:7": ErrImagePull: down` {
				t.Fatalf("during its wait: %+v", e)
			}
			time.Sleep(time.Second)
		}
		if last := got.all[len(got.all)-1]; last != `Normal BackOff Back-off pulling image "redis:7"` {
			t.Errorf("the last event is %q", last)
		}
		if e := ensure("other"); e == nil || e.Reason != ReasonErrImagePull || e.RetryAfter != 10*time.Second {
			t.Errorf("another pod: %+v", e)
		}
		time.Sleep(5 * time.Minute)
		fail = false
		if e := ensure("uid"); e != nil {
			t.Errorf("after the fault ended: %+v", e)
		}
		fail = true
		if e := ensure("uid"); e == nil || e.RetryAfter != 10*time.Second {
			t.Errorf("after a success the wait did not start over: %+v", e)
		}
		images.Forget("uid")
		if e := ensure("uid"); e == nil || e.Reason != ReasonErrImagePull {
			t.Errorf("a forgotten pod still waits: %+v", e)
		}
	})
}

func TestParallel(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{present: map[string]runtime.Image{}}
			images := New(Config{Runtime: n, Parallel: parallel})
			var group sync.WaitGroup
			var got events
			for i := range 6 {
				group.Go(func() {
					if _, err := images.Ensure(t.Context(), Request{Pod: "uid", Image: fmt.Sprintf("app:%d", i)}, got.take); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if n.most != parallel {
				t.Errorf("%d pulls at once, want %d", n.most, parallel)
			}
			last := fmt.Sprintf("in 1s (%ds including waiting)", 6/parallel)
			if !strings.Contains(got.all[len(got.all)-1], last) {
				t.Errorf("the last event %q does not say %q", got.all[len(got.all)-1], last)
			}
		})
	}
}

// TestCancelled: a pull that is cut off because its pod goes away is not a failure.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := New(Config{Runtime: &node{present: map[string]runtime.Image{}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		var got events
		_, err := images.Ensure(ctx, Request{Pod: "uid", Image: "redis:7"}, got.take)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]string{`Normal Pulling Pulling image "redis:7"`}, got.all); diff != "" {
			t.Error(diff)
		}
		if _, err := images.Ensure(t.Context(), Request{Pod: "uid", Image: "redis:7"}, got.take); err != nil {
			t.Errorf("the next attempt had to wait: %v", err)
		}
	})
}

func TestReferences(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		image, full, tagged, repository string
		policy                          corev1.PullPolicy
	}{
		{"nginx", "docker.io/library/nginx:latest", "nginx:latest", "docker.io/library/nginx", corev1.PullAlways},
		{"nginx:latest", "docker.io/library/nginx:latest", "nginx:latest", "docker.io/library/nginx", corev1.PullAlways},
		{"nginx:1.14.2", "docker.io/library/nginx:1.14.2", "nginx:1.14.2", "docker.io/library/nginx", corev1.PullIfNotPresent},
		{"bitnami/redis", "docker.io/bitnami/redis:latest", "bitnami/redis:latest", "docker.io/bitnami/redis", corev1.PullAlways},
		{"index.docker.io/library/nginx:1", "docker.io/library/nginx:1", "index.docker.io/library/nginx:1", "docker.io/library/nginx", corev1.PullIfNotPresent},
		{"localhost/app:1", "localhost/app:1", "localhost/app:1", "localhost/app", corev1.PullIfNotPresent},
		{"localhost:5000/app", "localhost:5000/app:latest", "localhost:5000/app:latest", "localhost:5000/app", corev1.PullAlways},
		{"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause", corev1.PullIfNotPresent},
		{"nginx" + digest, "docker.io/library/nginx" + digest, "nginx" + digest, "docker.io/library/nginx", corev1.PullIfNotPresent},
		{"nginx:1" + digest, "docker.io/library/nginx:1" + digest, "nginx:1" + digest, "docker.io/library/nginx", corev1.PullIfNotPresent},
	} {
		full, err := Normalize(test.image)
		if err != nil || full != test.full {
			t.Errorf("Normalize(%q) = %q, %v; want %q", test.image, full, err, test.full)
		}
		tagged, err := defaultTag(test.image)
		if err != nil || tagged != test.tagged {
			t.Errorf("DefaultTag(%q) = %q, %v; want %q", test.image, tagged, err, test.tagged)
		}
		name, err := repository(test.image)
		if err != nil || name != test.repository {
			t.Errorf("repository(%q) = %q, %v; want %q", test.image, name, err, test.repository)
		}
		if policy := defaultPolicy(test.image); policy != test.policy {
			t.Errorf("DefaultPolicy(%q) = %s, want %s", test.image, policy, test.policy)
		}
	}
	for _, bad := range []string{"", "Nginx", "nginx:", "nginx:a b", "a//b", "nginx@sha256:12", "-x", strings.Repeat("0", 64)} {
		if full, err := Normalize(bad); err == nil {
			t.Errorf("Normalize(%q) = %q", bad, full)
		}
	}
}

func TestCredentials(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("joe:pass:word"))
	ring, err := readSecrets([]*corev1.Secret{
		secret("hub", `{"auths":{"https://index.docker.io/v1/":{"auth":"`+encoded+`"}}}`),
		secret("wild", `{"auths":{"*.example.com":{"username":"wild"},"example.com:5000":{"username":"port"},"example.com/team/app":{"username":"app"},"example.com/team":{"username":"team"}}}`),
		{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"old.example.org":{"username":"old","password":"p"}}`)}},
		{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"x": []byte("y")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for repository, want := range map[string][]string{
		"docker.io/library/nginx":          {"joe/pass:word"},
		"docker.io/private/app":            {"joe/pass:word"},
		"a.example.com/app":                {"wild/"},
		"a.b.example.com/app":              nil,
		"a.example.com:5000/app":           nil,
		"example.com:5000/app":             {"port/"},
		"example.com/team/app":             {"app/", "team/"},
		"example.com/team/app/part":        {"app/", "team/"},
		"example.com/team/application":     {"team/"},
		"example.com/teams":                nil,
		"old.example.org/app":              {"old/p"},
		"docker.io.evil.example.net/nginx": nil,
	} {
		var got []string
		for _, auth := range ring.lookup(repository) {
			got = append(got, auth.Username+"/"+auth.Password)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", repository, diff)
		}
	}
	for content, want := range map[string]string{
		`{`:                               "not valid JSON",
		`{"auths":{"x":{"auth":"YQ=="}}}`: "not base64 of username:password",
	} {
		if _, err := readSecrets([]*corev1.Secret{secret("bad", content)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
	empty := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson}
	if _, err := readSecrets([]*corev1.Secret{empty}); err == nil || !strings.Contains(err.Error(), "no key .dockerconfigjson") {
		t.Errorf("a secret without its key: %v", err)
	}
}
