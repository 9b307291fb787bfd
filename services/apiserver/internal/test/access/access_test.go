package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// asker sends requests in the name of users.
type asker struct {
	*harness.Server
	t     *testing.T
	admin *rest.Config
}

// ask sends a request and returns the response's status code with the message of its Status, or its
// body. who is "admin", "anonymous", a node agent ("system:node:NAME"), or another user.
func (a *asker) ask(who, method, path, body string) (int, string) {
	a.t.Helper()
	config, header := a.admin, map[string]string{"Content-Type": "application/json"}
	switch {
	case who == "admin":
	case who == "anonymous":
		config = rest.AnonymousClientConfig(a.admin)
	case strings.HasPrefix(who, "system:node:"):
		config = a.Service(who)
	default:
		header["Impersonate-User"] = who
	}
	res, text := a.Exchange(config, method, path, body, header)
	var status metav1.Status
	if err := json.Unmarshal([]byte(text), &status); err == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return res.StatusCode, status.Message
	}
	return res.StatusCode, text
}

// want sends a request and compares the response.
func (a *asker) want(who, method, path, body string, code int, message string) {
	a.t.Helper()
	got, text := a.ask(who, method, path, body)
	if got != code || message != "" && text != message {
		a.t.Errorf("%s %s %s: got %d %s\nwant %d %s", who, method, path, got, text, code, message)
	}
}

// until repeats a request until the response has the wanted code.
func (a *asker) until(who, method, path string, code int) {
	a.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(harness.Patience)
	for {
		got, text := a.ask(who, method, path, "")
		if got == code {
			return
		}
		select {
		case <-end:
			a.t.Fatalf("%s %s %s stays %d %s, want %d", who, method, path, got, text, code)
		case <-ticker.C:
		}
	}
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	server := harness.Start(t)
	return &asker{Server: server, t: t, admin: server.Admin()}
}

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	inNS     = rbacPath + "/namespaces/default"
	podsPath = "/api/v1/namespaces/default/pods"
)

func roleJSON(kind, name, rules string) string {
	return fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": %q, "metadata": {"name": %q}, "rules": [%s]}`, kind, name, rules)
}

func bindingJSON(kind, name, roleKind, role, user string) string {
	return fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": %q, "metadata": {"name": %q},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": %q, "name": %q},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q}]}`, kind, name, roleKind, role, user)
}

// TestAccess: roles decide as soon as they are known, and refusals have Kubernetes' words.
func TestAccess(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	a.want("anonymous", http.MethodGet, "/readyz", "", 200, "ok")
	a.want("anonymous", http.MethodGet, "/api", "", 403, `forbidden: User "system:anonymous" cannot get path "/api"`)
	a.want("alice", http.MethodGet, "/api", "", 200, "")
	a.want("alice", http.MethodGet, "/metrics", "", 403, `forbidden: User "alice" cannot get path "/metrics"`)
	a.want("alice", http.MethodGet, podsPath, "", 403, `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`)
	a.want("alice", http.MethodGet, podsPath+"/p/log", "", 403, `pods "p" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "default"`)
	// A refusal does not reveal whether the resource exists.
	a.want("alice", http.MethodGet, "/apis/x.y/v1/things", "", 403, `things.x.y is forbidden: User "alice" cannot list resource "things" in API group "x.y" at the cluster scope`)
	a.want("admin", http.MethodGet, "/apis/x.y/v1/things", "", 404, "")

	// A binding takes effect as soon as it is known, until it is deleted; a missing role is named.
	a.want("admin", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "alice", "Role", "pods", "alice"), 201, "")
	a.until("alice", http.MethodGet, podsPath, 403)
	a.want("admin", http.MethodPost, inNS+"/roles", roleJSON("Role", "pods", `{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}`), 201, "")
	a.until("alice", http.MethodGet, podsPath, 200)
	a.want("alice", http.MethodGet, "/api/v1/pods", "", 403, `pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope`)
	a.want("admin", http.MethodDelete, inNS+"/roles/pods", "", 200, "")
	a.until("alice", http.MethodGet, podsPath, 403)
	a.want("alice", http.MethodGet, podsPath, "", 403, `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default": RBAC: role.rbac.authorization.k8s.io "pods" not found`)
	a.want("admin", http.MethodDelete, inNS+"/rolebindings/alice", "", 200, "")
	a.want("admin", http.MethodPost, rbacPath+"/clusterrolebindings", bindingJSON("ClusterRoleBinding", "alice", "ClusterRole", "system:kube-scheduler", "alice"), 201, "")
	a.until("alice", http.MethodGet, "/api/v1/nodes", 200)
	a.want("admin", http.MethodDelete, rbacPath+"/clusterrolebindings/alice", "", 200, "")
	a.until("alice", http.MethodGet, "/api/v1/nodes", 403)
}

// TestEscalation: a user who may write roles cannot gain more rights.
func TestEscalation(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	const forRoles = `{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"]}`
	// "*" would contain the right to escalate and to bind.
	rules := strings.Replace(forRoles, `["*"]`, `["create", "update", "get"]`, 1)
	a.want("admin", http.MethodPost, inNS+"/roles", roleJSON("Role", "access", rules), 201, "")
	a.want("admin", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "access", "Role", "access", "alice"), 201, "")
	a.until("alice", http.MethodGet, inNS+"/roles/access", 200)
	const attempt = ` is forbidden: user "alice" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	secrets := roleJSON("Role", "secrets", `{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}`)
	a.want("alice", http.MethodPost, inNS+"/roles", secrets, 403,
		`roles.rbac.authorization.k8s.io "secrets"`+attempt+`{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`)
	a.want("alice", http.MethodPut, inNS+"/roles/secrets", secrets, 403, // This PUT would create the role.
		`roles.rbac.authorization.k8s.io "secrets"`+attempt+`{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`)
	a.want("alice", http.MethodPost, inNS+"/roles", roleJSON("Role", "own", rules), 201, "")
	a.want("alice", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "own", "Role", "own", "bob"), 201, "")
	a.want("alice", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "gone", "Role", "gone", "bob"), 404, `roles.rbac.authorization.k8s.io "gone" not found`)
	if code, text := a.ask("alice", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "more", "ClusterRole", "cluster-admin", "alice")); code != 403 ||
		!strings.HasSuffix(text, attempt+`{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`+"\n"+`{NonResourceURLs:["*"], Verbs:["*"]}`) {
		t.Errorf("binding cluster-admin: got %d %s", code, text)
	}
	// A role and its binding in quick succession: nothing is refused because it is new.
	a.want("admin", http.MethodPost, rbacPath+"/clusterroles", roleJSON("ClusterRole", "binder", `{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]}`), 201, "")
	a.want("admin", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "binder", "ClusterRole", "binder", "alice"), 201, "")
	a.want("alice", http.MethodPost, inNS+"/rolebindings", bindingJSON("RoleBinding", "view", "ClusterRole", "view", "bob"), 201, "")
}

// TestNodeAccess: a node reads and writes only what belongs to it.
func TestNodeAccess(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	const node, secretsPath = "system:node:n1", "/api/v1/namespaces/default/secrets"
	a.want("admin", http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", `{"metadata": {"name": "default"}}`, 201, "")
	for _, name := range []string{"used", "unused"} {
		a.want("admin", http.MethodPost, secretsPath, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "`+name+`"}}`, 201, "")
	}
	a.want(node, http.MethodPost, "/api/v1/nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}`, 201, "")
	a.want(node, http.MethodPost, "/api/v1/nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}`, 403, `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`)
	const refused = ` is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'n1' and this object`
	a.want(node, http.MethodGet, secretsPath+"/used", "", 403, `secrets "used"`+refused)
	a.want("admin", http.MethodPost, podsPath, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
		"spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "used"}}]}]}}`, 201, "")
	// This works at once, whatever the watch cache has received.
	a.want(node, http.MethodGet, secretsPath+"/used", "", 200, "")
	a.want(node, http.MethodGet, secretsPath+"/unused", "", 403, `secrets "unused"`+refused)
	a.want("system:node:n2", http.MethodGet, secretsPath+"/used", "", 403, "")
	a.want(node, http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "", 200, "")
	a.want(node, http.MethodGet, "/api/v1/pods", "", 403, `pods is forbidden: User "system:node:n1" cannot list resource "pods" in API group "" at the cluster scope: can only list/watch pods with spec.nodeName field selector`)
	a.want("system:node:n2", http.MethodDelete, podsPath+"/p", "", 403, `pods "p" is forbidden: node "n2" can only delete pods with spec.nodeName set to itself`)

	token := func(podName, uid string) string {
		return `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "` + podName + `", "uid": "` + uid + `"}}}`
	}
	_, text := a.ask("admin", http.MethodGet, podsPath+"/p", "")
	var pod metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	const tokenPath = "/api/v1/namespaces/default/serviceaccounts/default/token" //nolint:gosec // A path.
	a.want(node, http.MethodPost, tokenPath, token("p", string(pod.UID)), 201, "")
	a.want(node, http.MethodPost, tokenPath, token("p", "other"), 403, "")
	a.want(node, http.MethodPost, tokenPath, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`, 403, `serviceaccounts "default" is forbidden: node requested token not bound to a pod`)
}

// TestReviews sends access reviews over HTTP.
func TestReviews(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	const path = "/apis/authorization.k8s.io/v1"
	review := func(kind, spec string) string {
		return `{"apiVersion": "authorization.k8s.io/v1", "kind": "` + kind + `", "spec": ` + spec + `}`
	}
	for _, c := range []struct {
		who, path, body string
		code            int
		want            string // part of the response
	}{
		{"alice", "/selfsubjectaccessreviews", review("SelfSubjectAccessReview", `{"resourceAttributes": {"verb": "list", "resource": "pods"}}`), 201, `"status":{"allowed":false}`},
		{"alice", "/selfsubjectaccessreviews", review("SelfSubjectAccessReview", `{"nonResourceAttributes": {"verb": "get", "path": "/api"}}`), 201,
			`"status":{"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""}`},
		{"anonymous", "/selfsubjectaccessreviews", review("SelfSubjectAccessReview", `{}`), 403, `cannot create resource \"selfsubjectaccessreviews\"`},
		{"alice", "/selfsubjectrulesreviews", review("SelfSubjectRulesReview", `{"namespace": "default"}`), 201, `"nonResourceURLs":["/api","/api/*"`},
		{"system:node:n1", "/selfsubjectrulesreviews", review("SelfSubjectRulesReview", `{"namespace": "default"}`), 201, `"incomplete":true,"evaluationError":"node authorizer does not support user rule resolution"`},
		{"alice", "/subjectaccessreviews", review("SubjectAccessReview", `{}`), 403, `cannot create resource \"subjectaccessreviews\"`},
		{"admin", "/subjectaccessreviews", review("SubjectAccessReview", `{"user": "system:kube-scheduler", "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "x"}}`), 201,
			`"allowed":true`},
		{"admin", "/subjectaccessreviews", review("SubjectAccessReview", `{"user": "u"}`), 422, `exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"admin", "/namespaces/default/localsubjectaccessreviews", review("LocalSubjectAccessReview", `{"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}`), 201, `"allowed":false`},
		{"admin", "/namespaces/default/localsubjectaccessreviews", review("LocalSubjectAccessReview", `{"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}`), 422, `must match metadata.namespace`},
	} {
		config := a.admin
		header := map[string]string{"Content-Type": "application/json"}
		switch c.who {
		case "alice":
			header["Impersonate-User"] = c.who
		case "anonymous":
			config = rest.AnonymousClientConfig(a.admin)
		case "system:node:n1":
			config = a.Service(c.who)
		}
		res, text := a.Exchange(config, http.MethodPost, path+c.path, c.body, header)
		if res.StatusCode != c.code || !strings.Contains(strings.ReplaceAll(text, "\n", ""), c.want) {
			t.Errorf("%s %s %s: got %d %s\nwant %d %s", c.who, c.path, c.body, res.StatusCode, text, c.code, c.want)
		}
	}
}

// TestApplyNeedsTheRightToCreate applies as a user who may patch but not create.
func TestApplyNeedsTheRightToCreate(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	a.want("admin", "POST", rbacPath+"/clusterroles", roleJSON("ClusterRole", "patchers",
		`{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": ["patch", "get", "update"]}`), 201, "")
	a.want("admin", "POST", rbacPath+"/clusterrolebindings", bindingJSON("ClusterRoleBinding", "patchers", "ClusterRole", "patchers", "pat"), 201, "")
	a.until("pat", "GET", maps+"/none", 404)
	apply := func(name string) (int, string) {
		res, body := a.Exchange(a.admin, "PATCH", maps+"/"+name+"?fieldManager=me", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {a: b}\n",
			map[string]string{"Content-Type": string(types.ApplyYAMLPatchType), "Impersonate-User": "pat"})
		return res.StatusCode, body
	}
	if code, body := apply("new"); code != 403 || !strings.Contains(body, `configmaps \"new\" is forbidden: User \"pat\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"`) {
		t.Errorf("a user who may only patch creates an object: got %d %s", code, body)
	}
	a.want("admin", "POST", maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old"}}`, 201, "")
	if code, body := apply("old"); code != 200 {
		t.Errorf("a user who may patch applies to an object: got %d %s", code, body)
	}
	a.want("pat", "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"new"}}`,
		403, `leases.coordination.k8s.io "new" is forbidden: User "pat" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default"`)
}
