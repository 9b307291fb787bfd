package secrets_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/cmd/garboard/internal/secrets"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
	"github.com/garboard/garboard/libs/scheme"
)

const namespace = "planes"

// config returns a plane's configuration, with its Secrets in c.
func config(c client.Interface) secrets.Config {
	return secrets.Config{
		Client: c, Namespace: namespace, Prefix: "one", Labels: map[string]string{"app.kubernetes.io/instance": "one"},
		Fill: deployment.Config{Server: "https://one-apiserver.planes.svc:6443", APIServerHosts: []string{"one-apiserver.planes.svc"}},
	}
}

func cluster() *fake.Client {
	return fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// sync runs Sync and returns the outcome for each Secret, in order.
func sync(t *testing.T, cfg secrets.Config) []string {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var told []string
	cfg.Report = func(name string, outcome pki.Outcome) { told = append(told, fmt.Sprintf("%v %s", outcome, name)) }
	if err := secrets.Sync(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return told
}

func get(t *testing.T, c client.Interface, name string) *corev1.Secret {
	t.Helper()
	secret, err := client.Of[*corev1.Secret](c).Get(t.Context(), namespace, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func all(outcome string, names ...string) (told []string) {
	for _, name := range names {
		told = append(told, outcome+" "+name)
	}
	return told
}

// TestSync creates all Secrets, keeps them, regenerates what was lost, and adds a name.
func TestSync(t *testing.T) {
	c := cluster()
	cfg := config(c)
	names := cfg.Names()
	if names[0] != "one-ca" || len(names) != len(deployment.Folders())-1 || slices.Contains(names, "one-gateway") {
		t.Fatalf("the Secrets are %v", names)
	}
	if got, want := sync(t, cfg), all("made", names...); !slices.Equal(got, want) {
		t.Errorf("first run: %v, want %v", got, want)
	}
	for name, files := range map[string]string{
		"one-ca":          "ca.crt ca.key etcd-ca.crt etcd-ca.key front-proxy-ca.crt front-proxy-ca.key routes-ca.crt routes-ca.key",
		"one-apiserver":   "ca.crt etcd-ca.crt etcd-client.crt etcd-client.key front-proxy-ca.crt front-proxy-client.crt front-proxy-client.key nats-apiserver.seed nats-auth.conf nats-client.crt nats-client.key nats-issuer.seed sa.key tls.crt tls.key",
		"one-controllers": "ca.crt ca.key kubeconfig sa.key",
		"one-scheduler":   "ca.crt kubeconfig",
		"one-nodeagent":   "bootstrap-kubeconfig ca.crt",
		"one-etcd":        "client.crt client.key etcd-ca.crt peer.crt peer.key server.crt server.key",
		"one-nats":        "ca.crt nats-auth.conf route.crt route.key routes-ca.crt server.crt server.key",
		"one-admin":       "bootstrap-token ca.crt kubeconfig",
		"one-prometheus":  "ca.crt client.crt client.key",
	} {
		secret := get(t, c, name)
		if got := strings.Join(slices.Sorted(maps.Keys(secret.Data)), " "); got != files {
			t.Errorf("%s has %s, want %s", name, got, files)
		}
		if secret.Type != corev1.SecretTypeOpaque || secret.Labels["app.kubernetes.io/instance"] != "one" {
			t.Errorf("%s has type %s and labels %v", name, secret.Type, secret.Labels)
		}
	}
	if got, want := sync(t, cfg), all("kept", names...); !slices.Equal(got, want) {
		t.Errorf("second run: %v, want %v", got, want)
	}

	// Secrets from before the routes had a CA are completed.
	for _, name := range []string{"one-ca", "one-nats"} {
		old := get(t, c, name)
		maps.DeleteFunc(old.Data, func(file string, _ []byte) bool { return strings.HasPrefix(file, "route") })
		c.Load(old)
	}
	completed := all("kept", names...)
	for _, name := range []string{"one-ca", "one-nats"} {
		completed[slices.Index(names, name)] = "renewed " + name
	}
	if got := sync(t, cfg); !slices.Equal(got, completed) || len(get(t, c, "one-nats").Data["route.key"]) == 0 {
		t.Errorf("after an upgrade: %v, want %v", got, completed)
	}

	// One Secret is deleted, and a user adds an entry to another.
	authority := get(t, c, "one-ca")
	c.Remove(get(t, c, "one-scheduler"))
	added := get(t, c, "one-apiserver")
	added.Data["mine"] = []byte("kept")
	c.Load(added)
	cfg.Fill.APIServerHosts = append(cfg.Fill.APIServerHosts, "more.example.com")
	got := sync(t, cfg)
	want := all("kept", names...)
	want[slices.Index(names, "one-scheduler")] = "made one-scheduler"
	want[slices.Index(names, "one-apiserver")] = "renewed one-apiserver"
	if !slices.Equal(got, want) {
		t.Errorf("after a loss and with a new name: %v, want %v", got, want)
	}
	if string(get(t, c, "one-apiserver").Data["mine"]) != "kept" {
		t.Error("the user's entry in a Secret is lost")
	}
	if string(get(t, c, "one-ca").Data["ca.key"]) != string(authority.Data["ca.key"]) {
		t.Error("the authority was replaced")
	}
}

// TestKeysOnly checks that KeysOnly stores no certificates.
func TestKeysOnly(t *testing.T) {
	c := cluster()
	cfg := config(c)
	cfg.KeysOnly = true
	if got := sync(t, cfg); !slices.Equal(got, []string{"made one-keys"}) {
		t.Errorf("first run: %v", got)
	}
	first := get(t, c, "one-keys")
	if got := strings.Join(slices.Sorted(maps.Keys(first.Data)), " "); got != "bootstrap-token nats-apiserver.seed nats-auth.conf nats-issuer.seed sa.key" {
		t.Errorf("the keys are %s", got)
	}
	if got := sync(t, cfg); !slices.Equal(got, []string{"kept one-keys"}) {
		t.Errorf("again: %v", got)
	}
	delete(first.Data, "sa.key")
	first.Data["mine"] = []byte("kept")
	c.Load(first)
	if got := sync(t, cfg); !slices.Equal(got, []string{"renewed one-keys"}) {
		t.Errorf("after a loss: %v", got)
	}
	if got := get(t, c, "one-keys"); string(got.Data["nats-issuer.seed"]) != string(first.Data["nats-issuer.seed"]) || len(got.Data["sa.key"]) == 0 || string(got.Data["mine"]) != "kept" {
		t.Error("an existing key was not kept, or a missing one was not generated")
	}
}

// TestSyncFails checks that damaged data is not replaced, and that the slower of two concurrent
// runs loses nothing.
func TestSyncFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		change func(c *fake.Client)
		want   string
	}{
		"a damaged authority": {func(c *fake.Client) {
			secret := get(t, c, "one-ca")
			secret.Data["ca.key"] = []byte("nothing")
			c.Load(secret)
		}, "is damaged"},
		"no permission to read": {func(c *fake.Client) {
			c.Fail(func(call client.Call) error {
				if call.Verb == "get" {
					return errors.New("forbidden")
				}
				return nil
			})
		}, "reading the Secret planes/one-ca: forbidden"},
		"a faster concurrent run": {func(c *fake.Client) {
			scheduler := get(t, c, "one-scheduler")
			c.Remove(scheduler)
			c.Fail(func(call client.Call) error {
				if call.Verb == "create" {
					scheduler.ResourceVersion = ""
					c.Load(scheduler)
				}
				return nil
			})
		}, "another program changed the Secret planes/one-scheduler at the same time; run this again"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := cluster()
			if err := secrets.Sync(t.Context(), config(cluster)); err != nil {
				t.Fatal(err)
			}
			c.change(cluster)
			if err := secrets.Sync(t.Context(), config(cluster)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
