package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestUpkeep checks what the controllers do for roles, quotas, budgets, tokens and certificates
// with the rights of Kubernetes' roles.
func TestUpkeep(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, upkeep := range map[string]func(*testing.T, *plane.Plane, kubernetes.Interface){
		"roles": rolesAreAggregated, "quota": quotaHolds, "budget": budgetIsCounted, "tokens": tokensEnd, "certificates": nodesAreApproved,
		"custom": customResourcesAreKept, "migration": storedVersionsAreMigrated, "policies": policyTypesAreChecked,
	} {
		t.Run(name, func(t *testing.T) { upkeep(t, p, clients) })
	}
	for line := range strings.Lines(p.Output()) {
		if strings.Contains(line, "forbidden: User") {
			t.Errorf("a service lacks a right: %s", line)
		}
	}
}

func rolesAreAggregated(t *testing.T, p *plane.Plane, _ kubernetes.Interface) {
	expect(t, p, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: widgets, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}},
		rules: [{verbs: [get], apiGroups: [example.com], resources: [widgets]}]}`, `created`, "create", "-f", "-")
	plane.Eventually(t, "the roles of users to be filled", func(context.Context) error {
		for role, want := range map[string]string{"view": "widgets", "edit": "pods/eviction", "admin": "rolebindings"} {
			if out := p.Must(t, "", "get", "clusterrole", role, "-o", "jsonpath={.rules[*].resources}"); !strings.Contains(out, want) {
				return fmt.Errorf("%s has rules for %s", role, out)
			}
		}
		return nil
	})
}

// quotaHolds creates and deletes pods under a quota concurrently. The pods must never exceed the
// quota, and must not count as used once they are deleted.
func quotaHolds(t *testing.T, p *plane.Plane, clients kubernetes.Interface) {
	const hard = 5
	expect(t, p, "", `created`, "create", "namespace", "crowded")
	expect(t, p, "", `created`, "create", "quota", "five", "-n", "crowded", fmt.Sprintf("--hard=pods=%d", hard))
	used := func(want string) {
		t.Helper()
		plane.Eventually(t, want+" pods to be used", func(context.Context) error {
			if out := p.Must(t, "", "get", "quota", "five", "-n", "crowded", "-o", "jsonpath={.status.used.pods}"); out != want {
				return errors.New(out)
			}
			return nil
		})
	}
	used("0")
	plane.Eventually(t, "the default service account", func(ctx context.Context) error {
		_, err := clients.CoreV1().ServiceAccounts("crowded").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	pods := clients.CoreV1().Pods("crowded")
	created := make([]int, 8)
	var wg sync.WaitGroup
	for id := range created {
		wg.Go(func() {
			for i := range 25 {
				name := fmt.Sprintf("p-%d-%d", id, i)
				_, err := pods.Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
				}, metav1.CreateOptions{})
				if apierrors.IsForbidden(err) {
					continue
				}
				if err != nil {
					t.Errorf("creating %s: %v", name, err)
					return
				}
				created[id]++
				list, err := pods.List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) > hard {
					t.Errorf("got %d pods, want at most %d (%v)", len(list.Items), hard, err)
				}
				if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
					t.Errorf("deleting %s: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range created {
		sum += n
	}
	if t.Logf("%d of %d pods were created", sum, 25*len(created)); sum < hard {
		t.Errorf("got %d, want at least the quota", sum)
	}
	used("0")
}

func budgetIsCounted(t *testing.T, p *plane.Plane, _ kubernetes.Interface) {
	expect(t, p, "", `created`, "create", "deployment", "counted", "--image=nginx", "--replicas=3")
	expect(t, p, "", `created`, "create", "poddisruptionbudget", "counted", "--selector=app=counted", "--max-unavailable=34%")
	plane.Eventually(t, "the budget's status", func(context.Context) error {
		const path = "jsonpath={.status.expectedPods} {.status.currentHealthy} {.status.desiredHealthy} {.status.disruptionsAllowed} {.status.conditions[0].reason}"
		if out := p.Must(t, "", "get", "pdb", "counted", "-o", path); out != "3 3 1 2 SufficientPods" {
			return errors.New(out)
		}
		return nil
	})
}

func tokensEnd(t *testing.T, p *plane.Plane, clients kubernetes.Interface) {
	expect(t, p, "", `created`, "create", "configmap", "cluster-info", "-n", "kube-public", "--from-literal=kubeconfig=content")
	for id, life := range map[string]time.Duration{"aaaaaa": time.Hour, "bbbbbb": -time.Hour} {
		_, err := clients.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
				"expiration": time.Now().Add(life).Format(time.RFC3339),
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	plane.Eventually(t, "the expired token to go and the other one to sign", func(ctx context.Context) error {
		if _, err := clients.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-bbbbbb", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("getting the expired token: %w", err)
		}
		info, err := clients.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if info.Data["jws-kubeconfig-aaaaaa"] == "" || info.Data["jws-kubeconfig-bbbbbb"] != "" {
			return fmt.Errorf("got cluster-info %v", info.Data)
		}
		return nil
	})
}

func nodesAreApproved(t *testing.T, _ *plane.Plane, clients kubernetes.Interface) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	requests := clients.CertificatesV1().CertificateSigningRequests()
	for name, subject := range map[string]pkix.Name{
		"a-node": {CommonName: "system:node:x", Organization: []string{"system:nodes"}}, "no-node": {CommonName: "somebody"},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
		if err != nil {
			t.Fatal(err)
		}
		signer := certificatesv1.KubeAPIServerClientKubeletSignerName
		if name == "no-node" {
			signer = certificatesv1.KubeAPIServerClientSignerName
		}
		_, err = requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	plane.Eventually(t, "the node's request to be approved", func(ctx context.Context) error {
		request, err := requests.Get(ctx, "a-node", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := request.Status.Conditions; len(c) != 1 || c[0].Type != certificatesv1.CertificateApproved || c[0].Reason != "AutoApproved" {
			return fmt.Errorf("conditions %+v", c)
		}
		return nil
	})
	if request, err := requests.Get(t.Context(), "no-node", metav1.GetOptions{}); err != nil || len(request.Status.Conditions) != 0 {
		t.Errorf("got the other request %+v, %v", request, err)
	}
}
