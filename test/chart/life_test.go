package chart_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/cli"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestLife takes the chart through its life cycle with Helm, on a plane without nodes. The test does what
// a Job's pod would do, with the rights that the chart grants it.
func TestLife(t *testing.T) {
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"} {
		t.Setenv(name, t.TempDir())
	}
	p := plane.Start(t, plane.Binary(t), "--nodes", "0")
	l := &life{p: p, config: &action.Configuration{}}
	settings := cli.New()
	settings.KubeConfig = p.Kubeconfig()
	settings.SetNamespace("planes")
	if err := l.config.Init(settings.RESTClientGetter(), "planes", "secret", t.Logf); err != nil {
		t.Fatal(err)
	}

	l.do(t, l.install(t, values(t, "default")))
	if l.jobs != 1 {
		t.Errorf("got %d Jobs before the installation, want 1", l.jobs)
	}
	l.mounted(t, "demo-garboard")
	authority, key := l.file(t, "demo-garboard-ca", "ca.crt"), l.file(t, "demo-garboard-apiserver", "sa.key")
	if names := l.names(t); slices.Contains(names, "api.example.com") || !slices.Contains(names, "demo-garboard-apiserver.planes.svc.cluster.local") || !slices.Contains(names, "10.112.0.1") {
		t.Errorf("the API's certificate covers %v", names)
	}

	l.do(t, l.upgrade(t, map[string]any{"apiserver": map[string]any{"replicas": 3}, "tls": map[string]any{"hosts": []any{"api.example.com"}}}))
	if got := l.field(t, "deployment/demo-garboard-apiserver", ".spec.replicas"); got != "3" {
		t.Errorf("got %s replicas after the upgrade, want 3", got)
	}
	if names := l.names(t); !slices.Contains(names, "api.example.com") {
		t.Errorf("after the upgrade the API's certificate covers %v", names)
	}
	if !bytes.Equal(authority, l.file(t, "demo-garboard-ca", "ca.crt")) || !bytes.Equal(key, l.file(t, "demo-garboard-apiserver", "sa.key")) {
		t.Error("the upgrade created a new authority, or a new key for service account tokens")
	}
	err := l.try(t, l.upgrade(t, map[string]any{"etcd": map[string]any{"replicas": 5}}))
	if err == nil || !strings.Contains(err.Error(), "etcd.replicas is 5, and the cluster has 3 members: it cannot be changed") {
		t.Errorf("the number of etcd members can be changed: %v", err)
	}

	l.do(t, func(context.Context) error {
		rollback := action.NewRollback(l.config)
		rollback.Version, rollback.Timeout = 1, plane.Patience
		return rollback.Run("demo")
	})
	if got := l.field(t, "deployment/demo-garboard-apiserver", ".spec.replicas"); got != "2" {
		t.Errorf("got %s replicas after the rollback, want 2", got)
	}

	uninstall := func(context.Context) error {
		uninstall := action.NewUninstall(l.config)
		uninstall.Timeout = plane.Patience
		_, err := uninstall.Run("demo")
		return err
	}
	l.do(t, uninstall)
	l.left(t)

	// A second installation finds the keys of the first.
	l.do(t, l.install(t, map[string]any{}))
	if !bytes.Equal(authority, l.file(t, "demo-garboard-ca", "ca.crt")) {
		t.Error("the second installation created a new authority")
	}
	l.do(t, uninstall)
	l.left(t)
	l.keysOnly(t)
}

// life is the state of a release under test.
type life struct {
	p      *plane.Plane
	config *action.Configuration
	jobs   int // number of Jobs run
}

func (l *life) install(t *testing.T, given map[string]any) func(context.Context) error {
	from := load(t)
	return func(ctx context.Context) error {
		install := action.NewInstall(l.config)
		install.ReleaseName, install.Namespace, install.CreateNamespace, install.Timeout = "demo", "planes", true, plane.Patience
		_, err := install.RunWithContext(ctx, from, given)
		return err
	}
}

func (l *life) upgrade(t *testing.T, given map[string]any) func(context.Context) error {
	from := load(t)
	return func(ctx context.Context) error {
		upgrade := action.NewUpgrade(l.config)
		upgrade.Namespace, upgrade.Timeout, upgrade.ResetValues = "planes", plane.Patience, true
		_, err := upgrade.RunWithContext(ctx, "demo", from, given)
		return err
	}
}

func (l *life) do(t *testing.T, step func(context.Context) error) {
	t.Helper()
	if err := l.try(t, step); err != nil {
		t.Fatal(err)
	}
}

// try runs a Helm step and, meanwhile, the Jobs that it waits for.
func (l *life) try(t *testing.T, step func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			l.runJobs(t)
		}
	}
}

// runJobs runs the pods of Jobs in place of a node.
func (l *life) runJobs(t *testing.T) {
	t.Helper()
	var pods corev1.PodList
	l.read(t, &pods, "get", "pods", "-n", "planes", "-l", batchv1.JobNameLabel, "-o", "json")
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			continue
		}
		l.runAs(t, pod.Spec.ServiceAccountName, pod.Spec.Containers[0].Args)
		l.jobs++
		l.p.Must(t, "", "patch", "pod", pod.Name, "-n", "planes", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)
	}
}

// runAs runs Garboard's command line with the rights of a service account, which may write only its
// own Secrets.
func (l *life) runAs(t *testing.T, account string, args []string) {
	t.Helper()
	for question, want := range map[string]string{
		"get secrets/demo-garboard-other": "no", "list secrets": "no", "delete secrets/demo-garboard-ca": "no", "get pods": "no", "create secrets": "yes",
	} {
		words := append([]string{"auth", "can-i", "-n", "planes", "--as=system:serviceaccount:planes:" + account}, strings.Fields(question)...)
		if got := strings.TrimSpace(l.p.Kubectl(t, "", words...).Stdout); got != want {
			t.Errorf("can-i for %s: %s: got %s, want %s", account, question, got, want)
		}
	}
	token := strings.TrimSpace(l.p.Must(t, "", "create", "token", account, "-n", "planes"))
	res := l.p.WithToken(t, token).Garboard(t, args...)
	if res.Code != 0 {
		t.Fatalf("garboard %v exited with %d\n%s%s", args, res.Code, res.Stdout, res.Stderr)
	}
}

func (l *life) read(t *testing.T, into any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.p.Must(t, "", args...)), into); err != nil {
		t.Fatal(err)
	}
}

func (l *life) field(t *testing.T, object, path string) string {
	t.Helper()
	return l.p.Must(t, "", "get", object, "-n", "planes", "-o", "jsonpath={"+path+"}")
}

func (l *life) file(t *testing.T, name, key string) []byte {
	t.Helper()
	var secret corev1.Secret
	l.read(t, &secret, "get", "secret", name, "-n", "planes", "-o", "json")
	if len(secret.Data[key]) == 0 {
		t.Fatalf("the Secret %s has no %s", name, key)
	}
	return secret.Data[key]
}

// names returns the names and addresses in the API's certificate.
func (l *life) names(t *testing.T) []string {
	t.Helper()
	block, _ := pem.Decode(l.file(t, "demo-garboard-apiserver", "tls.crt"))
	if block == nil {
		t.Fatal("tls.crt is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	names := cert.DNSNames
	for _, address := range cert.IPAddresses {
		names = append(names, address.String())
	}
	return names
}

// pkiFile matches a file that an argument or the NATS configuration names.
var pkiFile = regexp.MustCompile(`/etc/(?:garboard/pki|nats)/([a-z0-9.-]+)`)

// mounted checks that each pod mounts every file that its arguments name.
func (l *life) mounted(t *testing.T, full string) {
	t.Helper()
	for _, kind := range []string{"deployment", "statefulset"} {
		names := strings.Fields(l.p.Must(t, "", "get", kind, "-n", "planes", "-o", "jsonpath={.items[*].metadata.name}"))
		for _, name := range names {
			var template corev1.PodTemplateSpec
			l.read(t, &template, "get", kind, name, "-n", "planes", "-o", "jsonpath={.spec.template}")
			text := strings.Join(template.Spec.Containers[0].Args, "\n")
			have := map[string]bool{}
			for _, volume := range template.Spec.Volumes {
				if volume.Projected == nil {
					continue
				}
				for _, source := range volume.Projected.Sources {
					switch {
					case source.Secret != nil:
						var secret corev1.Secret
						l.read(t, &secret, "get", "secret", source.Secret.Name, "-n", "planes", "-o", "json")
						for key := range secret.Data {
							have[key] = true
						}
					case source.ConfigMap != nil:
						var config corev1.ConfigMap
						l.read(t, &config, "get", "configmap", source.ConfigMap.Name, "-n", "planes", "-o", "json")
						for key, value := range config.Data {
							have[key] = true
							text += "\n" + value
						}
					}
				}
			}
			named := pkiFile.FindAllStringSubmatch(text, -1)
			if len(named) == 0 {
				t.Errorf("the arguments of %s name no file", name)
			}
			for _, file := range named {
				if !have[file[1]] {
					t.Errorf("the arguments of %s name %s, but it mounts %v", name, file[0], have)
				}
			}
		}
		if len(names) < 2 {
			t.Errorf("%s: got %v, want at least two", full, names)
		}
	}
}

// left checks that the Secrets with keys and the claims of the stores are all that remains of the release,
// and deletes the claims.
func (l *life) left(t *testing.T) {
	t.Helper()
	plane.Eventually(t, "the release to be gone", func(context.Context) error {
		got := l.p.Must(t, "", "get", "-n", "planes", "-o", "name",
			"deployments,statefulsets,daemonsets,replicasets,pods,jobs,services,endpointslices,configmaps,serviceaccounts,roles,rolebindings,hpa,pdb,networkpolicies,pvc,leases")
		want := "configmap/kube-root-ca.crt\nserviceaccount/default\n"
		for _, store := range []string{"etcd", "nats"} {
			for member := range 3 {
				want += fmt.Sprintf("persistentvolumeclaim/data-demo-garboard-%s-%d\n", store, member)
			}
		}
		if got != want {
			return fmt.Errorf("still there:\n%s", got)
		}
		return nil
	})
	l.p.Must(t, "", "delete", "pvc", "--all", "-n", "planes")
	var secrets corev1.SecretList
	l.read(t, &secrets, "get", "secrets", "-n", "planes", "-l", "app.kubernetes.io/instance=demo", "-o", "json")
	var all corev1.SecretList
	l.read(t, &all, "get", "secrets", "-n", "planes", "-o", "json")
	if len(secrets.Items) != 9 || len(all.Items) != 9 {
		t.Errorf("got %d Secrets left, %d with the release's label, want 9", len(all.Items), len(secrets.Items))
	}
}

// keysOnly runs the Job of a plane whose certificates come from cert-manager, which Helm cannot
// install here.
func (l *life) keysOnly(t *testing.T) {
	t.Helper()
	made, err := render(t, values(t, "certmanager"))
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, hook := range made.Hooks {
		switch hook.Kind {
		case "ServiceAccount", "Role", "RoleBinding":
			l.p.Must(t, hook.Manifest, "create", "-f", "-")
		case "Job":
			var job batchv1.Job
			if err := yaml.Unmarshal([]byte(hook.Manifest), &job); err != nil {
				t.Fatal(err)
			}
			args = job.Spec.Template.Spec.Containers[0].Args
		}
	}
	l.runAs(t, "demo-garboard-init", args)
	for _, key := range []string{"sa.key", "nats-issuer.seed", "nats-apiserver.seed", "nats-auth.conf", "bootstrap-token"} {
		l.file(t, "demo-garboard-keys", key)
	}
}
