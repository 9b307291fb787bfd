package access_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// whoami asks the server for the user of config.
func whoami(t *testing.T, config *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	answered, err := harness.Typed(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return answered.Status.UserInfo, nil
}

// TestWhoIsWho authenticates with each kind of credential.
func TestWhoIsWho(t *testing.T) {
	t.Parallel()
	s := harness.New(t, etcdtest.New(t))
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("filetoken,bob,b1,\"ops\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.TokenFile = tokens }
	s.Start()
	ctx, admin := t.Context(), harness.Typed(t, s.Admin())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:worker",
		},
	}
	_, err := admin.CoreV1().Secrets("kube-system").Create(ctx, secret, metav1.CreateOptions{})
	must(err)
	_, err = admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	must(err)
	// It may take a moment until a new object is known where tokens are looked up.
	harness.Eventually(t, "the bootstrap token is known", func() bool {
		_, err := whoami(t, s.WithToken("abcdef.0123456789abcdef"))
		return err == nil
	})
	for name, c := range map[string]struct {
		config *rest.Config
		want   string
	}{
		"a certificate":            {s.Admin(), "kubernetes-admin system:masters system:authenticated"},
		"a token from the file":    {s.WithToken("filetoken"), "bob ops system:authenticated"},
		"a bootstrap token":        {s.WithToken("abcdef.0123456789abcdef"), "system:bootstrap:abcdef system:bootstrappers system:bootstrappers:worker system:authenticated"},
		"a service account":        {s.WithToken(issue(t, admin, nil)), "system:serviceaccount:default:robot system:serviceaccounts system:serviceaccounts:default system:authenticated"},
		"a plane component":        {s.Service("system:kube-scheduler"), "system:kube-scheduler system:authenticated"},
		"impersonating a user":     {impersonating(s.Admin(), rest.ImpersonationConfig{UserName: "jane", Groups: []string{"devs"}, UID: "u1"}), "jane devs system:authenticated"},
		"impersonating an account": {impersonating(s.Admin(), rest.ImpersonationConfig{UserName: "system:serviceaccount:a:b"}), "system:serviceaccount:a:b system:serviceaccounts system:serviceaccounts:a system:authenticated"},
	} {
		user, err := whoami(t, c.config)
		if got := strings.Join(append([]string{user.Username}, user.Groups...), " "); got != c.want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
	for name, config := range map[string]*rest.Config{
		"nonsense": s.WithToken("nonsense"), "another bootstrap token": s.WithToken("abcdef.fedcba9876543210"),
	} {
		_, err := whoami(t, config)
		if want := (metav1.Status{Status: "Failure", Message: "Unauthorized", Reason: "Unauthorized", Code: 401}); !apierrors.IsUnauthorized(err) ||
			!cmp.Equal(harness.StatusOf(t, err), want) {
			t.Errorf("%s: got %v, want Unauthorized", name, err)
		}
	}
	_, err = whoami(t, s.WithToken(""))
	if want := `selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`; err == nil || err.Error() != want {
		t.Errorf("without a credential: got %v", err)
	}
	// A changed file takes effect at once; an invalid one does not.
	must(os.WriteFile(tokens, []byte("othertoken,carol,c1\n"), 0o600))
	if user, err := whoami(t, s.WithToken("othertoken")); user.Username != "carol" {
		t.Error(err)
	}
	must(os.WriteFile(tokens, []byte("rubbish\n"), 0o600))
	if user, err := whoami(t, s.WithToken("othertoken")); user.Username != "carol" {
		t.Error(err)
	}
	if _, err := whoami(t, s.WithToken("filetoken")); !apierrors.IsUnauthorized(err) {
		t.Errorf("a removed token: got %v, want Unauthorized", err)
	}
}

func impersonating(config *rest.Config, as rest.ImpersonationConfig) *rest.Config {
	config.Impersonate = as
	return config
}

// request asks for a token of default/robot.
func request(t *testing.T, admin kubernetes.Interface, change func(*authenticationv1.TokenRequest)) (*authenticationv1.TokenRequest, error) {
	t.Helper()
	req := &authenticationv1.TokenRequest{}
	change(req)
	return admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", req, metav1.CreateOptions{})
}

// TestTokenRequests checks what tokens can be bound to, and the words of the refusals.
func TestTokenRequests(t *testing.T) {
	t.Parallel()
	s := harness.New(t, etcdtest.New(t))
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.MaxTokenLife = 2 * time.Hour }
	s.Start()
	ctx, admin := t.Context(), harness.Typed(t, s.Admin())
	_, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, account := range []string{"robot", "default"} {
		var pod *corev1.Pod
		harness.Eventually(t, "a pod can be created", func() bool {
			pod, err = admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p-" + account},
				Spec:       corev1.PodSpec{ServiceAccountName: account, NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{})
			if account == "default" && err != nil {
				_, _ = admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
			}
			return err == nil
		})
		pods[account] = pod
	}
	seconds := func(n int64) *int64 { return &n }
	ref := func(kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
		version := "v1"
		if kind == "Deployment" {
			version = "apps/v1"
		}
		return &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: version, Name: name, UID: uid}
	}
	for name, c := range map[string]struct {
		change func(*authenticationv1.TokenRequest)
		extra  map[string]string
		want   string // the error
	}{
		"bound to nothing": {func(*authenticationv1.TokenRequest) {}, nil, ""},
		"to a pod": {func(r *authenticationv1.TokenRequest) {
			r.Spec.BoundObjectRef = ref("Pod", "p-robot", pods["robot"].UID)
		}, map[string]string{
			"authentication.kubernetes.io/pod-name": "p-robot", "authentication.kubernetes.io/pod-uid": string(pods["robot"].UID),
			"authentication.kubernetes.io/node-name": "n1", "authentication.kubernetes.io/node-uid": string(node.UID),
		}, ""},
		"to a node": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Node", "n1", "") }, map[string]string{
			"authentication.kubernetes.io/node-name": "n1", "authentication.kubernetes.io/node-uid": string(node.UID),
		}, ""},
		"to a secret": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Secret", "s", secret.UID) }, nil, ""},
		"to a pod of another account": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Pod", "p-default", "") }, nil,
			`cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`},
		"to a missing pod": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Pod", "x", "") }, nil, `pods "x" not found`},
		"to a replaced pod": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Pod", "p-robot", "u9") }, nil,
			`Operation cannot be fulfilled on Pod "p-robot": the UID in the bound object reference (u9) does not match the UID in record. The object might have been deleted and then recreated`},
		"to an unsupported kind": {func(r *authenticationv1.TokenRequest) { r.Spec.BoundObjectRef = ref("Deployment", "d", "") }, nil,
			"cannot bind token to object of type apps/v1, Kind=Deployment"},
		"too short": {func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = seconds(599) }, nil,
			`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`},
		"too long": {func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = seconds(1<<32 + 1) }, nil,
			`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`},
		"for another name": {func(r *authenticationv1.TokenRequest) { r.Name = "x" }, nil,
			`TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "x": must match the service account name if specified`},
		"for another namespace": {func(r *authenticationv1.TokenRequest) { r.Namespace = "x" }, nil,
			"the namespace of the provided object does not match the namespace sent on the request"},
	} {
		got, err := request(t, admin, c.change)
		if c.want != "" {
			if err == nil || err.Error() != c.want {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if life := time.Until(got.Status.ExpirationTimestamp.Time); life > time.Hour || life < 59*time.Minute || *got.Spec.ExpirationSeconds != 3600 {
			t.Errorf("%s: got %+v", name, got)
		}
		if want := []string{apiserver.DefaultIssuer}; !slices.Equal(got.Spec.Audiences, want) {
			t.Errorf("%s: got audiences %q", name, got.Spec.Audiences)
		}
		user, err := whoami(t, s.WithToken(got.Status.Token))
		for key, want := range c.extra {
			if values := user.Extra[key]; !slices.Equal(values, []string{want}) {
				t.Errorf("%s: got %s %q, want %q; %v", name, key, values, want, err)
			}
		}
	}
	got, err := request(t, admin, func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = seconds(5 * 3600) })
	if err != nil || *got.Spec.ExpirationSeconds != 7200 {
		t.Errorf("a request for longer than the maximum: got %+v, %v", got, err)
	}

	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		answered, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answered.Status
	}
	vault, err := request(t, admin, func(r *authenticationv1.TokenRequest) {
		r.Spec.Audiences, r.Spec.BoundObjectRef = []string{"vault"}, ref("Secret", "s", "")
	})
	if err != nil {
		t.Fatal(err)
	}
	if status := review(vault.Status.Token, "vault", "x"); !status.Authenticated || status.User.Username != "system:serviceaccount:default:robot" || !slices.Equal(status.Audiences, []string{"vault"}) {
		t.Errorf("reviewed for its audience: got %+v", status)
	}
	if status := review(vault.Status.Token); status.Authenticated || !strings.Contains(status.Error, `token audiences ["vault"] is invalid for the target audiences`) {
		t.Errorf("reviewed for the API: got %+v", status)
	}
	if err := admin.CoreV1().Secrets("default").Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the token of a deleted secret is not accepted", func() bool {
		return review(vault.Status.Token, "vault").Error == "service account token has been invalidated"
	})
}

// TestDiscoveryOfTokens: other programs find the keys that sign tokens.
func TestDiscoveryOfTokens(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := harness.Typed(t, s.Admin())
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A service account may read the documents, by the role
	// system:service-account-issuer-discovery.
	robot := harness.Typed(t, s.WithToken(issue(t, admin, nil)))
	data, err := robot.Discovery().RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &document); err != nil || document.Issuer != apiserver.DefaultIssuer || document.Keys != s.URL+"/openid/v1/jwks" {
		t.Errorf("the discovery document is %s, %v", data, err)
	}
	data, err = robot.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(data), `"alg":"ES256"`) || strings.Contains(string(data), `"d":`) {
		t.Errorf("the keys are %s, %v", data, err)
	}
	nobody := harness.Typed(t, s.WithToken(""))
	if _, err := nobody.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("without a credential: got %v, want Forbidden", err)
	}
}

// TestAuditLog follows requests of a typed client, in protobuf, to the lines of the audit log.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	s := harness.New(t, etcdtest.New(t))
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "logs", "audit.log")
	const text = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: RequestResponse
  namespaces: [default]
  resources: [{group: "", resources: [configmaps]}]
`
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Change = func(cfg *apiserver.Config) { cfg.Audit.PolicyFile, cfg.Audit.LogPath = policy, log }
	s.Start()
	config := s.Admin()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	config.UserAgent, config.Impersonate = "test/1", rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}
	maps, ctx := harness.Typed(t, config).CoreV1().ConfigMaps("default"), t.Context()
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"k":"w"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=c"}); err != nil {
		t.Fatal(err)
	}
	watching, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watching.Stop()
	if err := maps.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(ctx, "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.Stop()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind, Reason string
		Metadata     struct{ Name, UID, ResourceVersion string }
		Data         map[string]string
		Items        []struct{ Metadata struct{ Name string } }
	}
	type event struct {
		Verb, Stage, RequestURI, UserAgent string
		User, ImpersonatedUser             struct{ Username string }
		ObjectRef                          struct{ Resource, Namespace, Name, APIVersion, UID string }
		ResponseStatus                     struct{ Code int }
		RequestObject, ResponseObject      *object
		Annotations                        map[string]string
	}
	events := map[string]event{}
	var order []string
	for line := range strings.Lines(string(data)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.User.Username != "kubernetes-admin" || e.ImpersonatedUser.Username != "root" || e.UserAgent != "test/1" ||
			e.ObjectRef.Resource != "configmaps" || e.ObjectRef.Namespace != "default" || e.ObjectRef.APIVersion != "v1" ||
			e.Annotations["authorization.k8s.io/decision"] != "allow" {
			t.Errorf("an unexpected event: %s", line)
		}
		key := e.Verb + " " + e.Stage
		order, events[key] = append(order, key), e
	}
	slices.Sort(order) // The end of the watch may come late.
	want := []string{
		"create ResponseComplete", "delete ResponseComplete", "get ResponseComplete", "list ResponseComplete",
		"patch ResponseComplete", "watch ResponseComplete", "watch ResponseStarted",
	}
	if !slices.Equal(order, want) {
		t.Fatalf("got events %q, want %q", order, want)
	}
	if e := events["create ResponseComplete"]; e.ObjectRef.Name != "c" || e.ResponseStatus.Code != 201 || e.RequestObject == nil || e.ResponseObject == nil ||
		e.RequestObject.Kind != "ConfigMap" || e.RequestObject.Data["k"] != "v" || e.RequestObject.Metadata.UID != "" ||
		e.ResponseObject.Kind != "ConfigMap" || e.ResponseObject.Metadata.UID != string(made.UID) {
		t.Errorf("create: got %+v", e)
	}
	if e := events["patch ResponseComplete"]; e.RequestObject == nil || e.RequestObject.Data["k"] != "w" || e.ResponseObject == nil || e.ResponseObject.Data["k"] != "w" {
		t.Errorf("patch: got %+v", e)
	}
	if e := events["list ResponseComplete"]; e.RequestObject != nil || e.ResponseObject == nil || e.ResponseObject.Kind != "ConfigMapList" || len(e.ResponseObject.Items) != 1 {
		t.Errorf("list: got %+v", e)
	}
	if e := events["watch ResponseComplete"]; e.ResponseStatus.Code != 200 || e.ResponseObject != nil {
		t.Errorf("watch: got %+v", e)
	}
	if e := events["delete ResponseComplete"]; e.RequestObject == nil || e.RequestObject.Kind != "DeleteOptions" || e.ResponseObject == nil {
		t.Errorf("delete: got %+v", e)
	}
	if e := events["get ResponseComplete"]; e.ResponseStatus.Code != 404 || e.ResponseObject == nil || e.ResponseObject.Reason != "NotFound" {
		t.Errorf("get: got %+v", e)
	}
}

// TestAnonymousRule checks where requests without a credential are allowed.
func TestAnonymousRule(t *testing.T) {
	t.Parallel()
	s := harness.New(t, etcdtest.New(t))
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.AnonymousPaths = []string{"/livez"} }
	s.Start()
	transport, err := rest.TransportFor(s.WithToken(""))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 401, "/version": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, res.StatusCode, want)
		}
	}
}
