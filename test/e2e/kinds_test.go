package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"regexp"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// kubectlKinds creates and changes objects of the access, policy and storage kinds.
func kubectlKinds(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `^NAME +VALUE +GLOBAL-DEFAULT +AGE +PREEMPTIONPOLICY\nsystem-cluster-critical +2000000000 +false +\S+ +PreemptLowerPriority\nsystem-node-critical +2000001000 `, "get", "pc")
	expect(t, p, "", `^priorityclass\.scheduling\.k8s\.io/high created\n$`, "create", "priorityclass", "high", "--value=100")
	expectFailure(t, p, `^The PriorityClass "high" is invalid: value: Forbidden: may not be changed in an update\.\n$`, "patch", "pc", "high", "-p", `{"value":1}`)
	expectFailure(t, p, `priority class names with 'system-' prefix are reserved for system use only\. error: system-mine is not a known system priority class\n$`,
		"create", "priorityclass", "system-mine", "--value=1")

	expect(t, p, "", `created\n$`, "create", "quota", "counted", "--hard=configmaps=100,limits.cpu=4")
	counted := regexp.MustCompile(`^NAME +REQUEST +LIMIT +AGE\ncounted +configmaps: \d+/100 +limits\.cpu: 0/4 +\S+\n$`)
	plane.Eventually(t, "the quota to be counted", func(context.Context) error {
		if out := p.Must(t, "", "get", "quota"); !counted.MatchString(out) {
			return fmt.Errorf("kubectl get quota:\n%s", out)
		}
		return nil
	})
	expectFailure(t, p, `^error: failed to create quota: ResourceQuota "bad" is invalid: .*spec\.hard\[rockets\]: Invalid value: "rockets": must be a standard resource for quota\]\n$`, "create", "quota", "bad", "--hard=rockets=1")
	expect(t, p, "", `deleted`, "delete", "quota", "counted")

	expect(t, p, "", `created\n$`, "create", "role", "reader", "--verb=get", "--resource=pods")
	expect(t, p, "", `created\n$`, "create", "rolebinding", "readers", "--role=reader", "--user=ann", "--serviceaccount=default:bot")
	expect(t, p, "", `^NAME +ROLE +AGE +USERS +GROUPS +SERVICEACCOUNTS\nreaders +Role/reader +\S+ +ann +default/bot\n$`, "get", "rolebinding", "-o", "wide")
	expectFailure(t, p, `field is immutable\n$`, "patch", "rolebinding", "readers", "-p", `{"roleRef":{"name":"writer"}}`)

	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	expect(t, p, claim, `created\n$`, "create", "-f", "-")
	expect(t, p, "", `^NAME +STATUS +VOLUME +CAPACITY +ACCESS MODES +STORAGECLASS +VOLUMEATTRIBUTESCLASS +AGE\ndata +Pending +local-path +<unset> `, "get", "pvc")
	expectFailure(t, p, `spec: Forbidden: spec is immutable after creation except resources\.requests and volumeAttributesClassName for bound claims\n`,
		"patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	class := "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}\nprovisioner: example.com/fast\n"
	expect(t, p, class, `created\n$`, "create", "-f", "-")
	expect(t, p, "", `\nfast \(default\) +example\.com/fast +Delete +Immediate +false +\S+\nlocal-path \(default\) +garboard\.io/local-path +Delete +WaitForFirstConsumer +false +\S+\n$`, "get", "sc")
	expectFailure(t, p, `reclaimPolicy: Invalid value: "Retain": field is immutable\n$`, "patch", "sc", "fast", "-p", `{"reclaimPolicy":"Retain"}`)
	expect(t, p, "", `deleted`, "delete", "sc/fast", "pvc/data")
	kubectlCertificates(t, p)
}

// kubectlCertificates requests certificates, which an administrator approves or denies.
func kubectlCertificates(t *testing.T, p *plane.Plane) {
	for _, name := range []string{"good", "bad"} {
		expect(t, p, certificateRequest(t, name), `^certificatesigningrequest\.certificates\.k8s\.io/`+name+` created\n$`, "create", "-f", "-")
	}
	expect(t, p, "", `^NAME +AGE +SIGNERNAME +REQUESTOR +REQUESTEDDURATION +CONDITION\nbad +\S+ +example\.com/bad +kubernetes-admin +60m +Pending\n$`, "get", "csr", "bad")
	expect(t, p, "", `^certificatesigningrequest\.certificates\.k8s\.io/good approved\n$`, "certificate", "approve", "good")
	expect(t, p, "", `^certificatesigningrequest\.certificates\.k8s\.io/bad denied\n$`, "certificate", "deny", "bad")
	expect(t, p, "", `\nbad .* Denied\ngood .* Approved\n$`, "get", "csr")
	expect(t, p, "", `^certificatesigningrequest\.certificates\.k8s\.io/good\n$`, "get", "csr", "--field-selector=spec.signerName=example.com/good", "-o", "name")
	expectFailure(t, p, `updates may not remove a condition of type "Approved"\n$`, "patch", "csr", "good", "--subresource=approval", "--type=merge", "-p", `{"status":{"conditions":null}}`)
	expectFailureStdin(t, p, "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: empty}\nspec: {request: \"\", signerName: nowhere, expirationSeconds: 1}\n",
		`(?s)spec\.request: .*PEM block type must be CERTIFICATE REQUEST.*spec\.usages: Required value.*spec\.signerName: Invalid value: "nowhere": must be a fully qualified domain and path of the form 'example\.com/signer-name'.*may not specify a duration less than 600 seconds \(10 minutes\)`,
		"create", "-f", "-")
	expect(t, p, "", `deleted`, "delete", "csr", "good", "bad")
}

// certificateRequest returns the manifest of a request to the signer example.com/NAME.
func certificateRequest(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf("apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: %s}\n"+
		"spec: {request: %s, signerName: example.com/%[1]s, usages: [client auth], expirationSeconds: 3600}\n", name, base64.StdEncoding.EncodeToString(request))
}
