package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/garboard/garboard/test/e2e/plane"
)

// rights are the only rights of the operator and of the client-go program: those their charts would
// request, in one namespace.
const rights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: operator}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, update, patch]}
- {apiGroups: [""], resources: [configmaps/finalizers], verbs: [update]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}
subjects:
- {kind: ServiceAccount, name: operator, namespace: operated}
`

// restricted returns the configuration of a service account that has the rights above in the
// namespace "operated".
func restricted(t *testing.T, p *plane.Plane) *rest.Config {
	t.Helper()
	p.Must(t, "", "create", "namespace", "operated")
	p.Must(t, rights, "apply", "-n", "operated", "-f", "-")
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = strings.TrimSpace(p.Must(t, "", "create", "token", "operator", "-n", "operated"))
	return config
}

// TestOperator runs an unmodified controller-runtime manager, with leader election, caches, owned
// objects and Events. It runs as a service account with exactly the rights it needs.
func TestOperator(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	config := restricted(t, p)
	// Each manager has its own connections, which close with it.
	transport := &http.Transport{}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = tlsConfig, true
	defer transport.CloseIdleConnections()
	config.TLSClientConfig, config.Transport = rest.TLSClientConfig{}, transport

	ctx, cancel := context.WithCancel(t.Context())
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Logger: logr.Discard(), Scheme: clientgoscheme.Scheme,
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{"operated": {}}},
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: "operated", LeaderElectionReleaseOnCancel: true,
		LeaseDuration: new(time.Minute), RenewDeadline: new(50 * time.Second), // A stall of the machine must not end the manager.
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(&copier{client: manager.GetClient(), recorder: manager.GetEventRecorder("copier")})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}()

	for i := range 20 {
		p.Must(t, "", "create", "configmap", fmt.Sprintf("text-%d", i), "-n", "operated", "--from-literal=k=before")
	}
	p.Must(t, "", "label", "configmap", "--all", "-n", "operated", "copy=yes")
	copied(t, p, "text-19", "before")
	// The operator repairs a changed source and a lost copy.
	p.Must(t, "", "patch", "configmap", "text-3", "-n", "operated", "-p", `{"data":{"k":"after"}}`)
	copied(t, p, "text-3", "after")
	p.Must(t, "", "delete", "secret", "text-4", "-n", "operated")
	copied(t, p, "text-4", "before")
	// An owned object is deleted with its owner.
	p.Must(t, "", "delete", "configmap", "text-5", "-n", "operated")
	plane.Eventually(t, "the garbage collector to delete the secret of text-5", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "secret", "text-5", "-n", "operated"); res.Code == 0 {
			return errors.New("it is still there")
		}
		return nil
	})
	plane.Eventually(t, "the operator's Events", func(context.Context) error {
		if out := p.Must(t, "", "get", "events", "-n", "operated", "--field-selector=reason=Copied"); !strings.Contains(out, "configmap/text-0") {
			return errors.New(out)
		}
		return nil
	})
	if out := p.Must(t, "", "get", "lease", "copier", "-n", "operated", "-o", "jsonpath={.spec.holderIdentity}"); out == "" {
		t.Error("the operator's lease has no holder")
	}

	// The apiserver refuses anything else, with the messages of Kubernetes.
	elsewhere, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = elsewhere.List(ctx, &corev1.SecretList{}, client.InNamespace("default"))
	want := `secrets is forbidden: User "system:serviceaccount:operated:operator" cannot list resource "secrets" in API group "" in the namespace "default"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("listing another namespace: %v\nwant %s", err, want)
	}
	err = elsewhere.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "operated", Name: "text-1"}})
	want = `configmaps "text-1" is forbidden: User "system:serviceaccount:operated:operator" cannot delete resource "configmaps" in API group "" in the namespace "operated"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("deleting: %v\nwant %s", err, want)
	}
}

// copied waits until the operator has copied a config map to a secret.
func copied(t *testing.T, p *plane.Plane, name, value string) {
	t.Helper()
	plane.Eventually(t, "the secret "+name, func(context.Context) error {
		res := p.Kubectl(t, "", "get", "secret", name, "-n", "operated", "-o", "go-template={{.data.k | base64decode}}")
		if res.Stdout != value {
			return fmt.Errorf("%q, want %q: %s", res.Stdout, value, res.Stderr)
		}
		return nil
	})
}

// copier keeps a secret with the content of each config map that has its label.
type copier struct {
	client   client.Client
	recorder events.EventRecorder
}

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := c.client.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["copy"] == "" || source.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, c.client, secret, func() error {
		secret.Data = map[string][]byte{"k": []byte(source.Data["k"])}
		return controllerutil.SetControllerReference(source, secret, clientgoscheme.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result == controllerutil.OperationResultCreated {
		c.recorder.Eventf(source, secret, corev1.EventTypeNormal, "Copied", "Copy", "made secret %s", secret.Name)
	}
	return ctrl.Result{}, nil
}
