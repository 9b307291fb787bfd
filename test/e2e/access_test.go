package e2e_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestAccess checks how an administrator grants rights with kubectl, and what the users and service
// accounts that hold them may do.
func TestAccess(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `^namespace/team created\n$`, "create", "namespace", "team")
	expect(t, p, "", `^serviceaccount/robot created\n$`, "create", "serviceaccount", "robot", "-n", "team")
	expect(t, p, "", `^role\.rbac\.authorization\.k8s\.io/reader created\n$`, "create", "role", "reader", "-n", "team",
		"--verb=get,list,watch", "--resource=pods,configmaps")
	expect(t, p, "", `^rolebinding\.rbac\.authorization\.k8s\.io/robot-reads created\n$`, "create", "rolebinding", "robot-reads", "-n", "team",
		"--role=reader", "--serviceaccount=team:robot")
	expect(t, p, "", `^clusterrolebinding\.rbac\.authorization\.k8s\.io/jane-views created\n$`, "create", "clusterrolebinding", "jane-views",
		"--clusterrole=view", "--user=jane")

	t.Run("whoami", func(t *testing.T) {
		expect(t, p, "", `^ATTRIBUTE +VALUE\nUsername +kubernetes-admin\nGroups +\[system:masters system:authenticated\]\n`, "auth", "whoami")
		expect(t, p, "", `^ATTRIBUTE +VALUE\nUsername +jane\nGroups +\[devs system:authenticated\]\n$`, "auth", "whoami", "--as=jane", "--as-group=devs")
	})
	t.Run("can I", func(t *testing.T) {
		const robot = "--as=system:serviceaccount:team:robot"
		expectSoon(t, p, `^yes\n$`, "auth", "can-i", "list", "pods", "-n", "team", robot)
		expectNo(t, p, "auth", "can-i", "list", "pods", "-n", "default", robot)
		expectNo(t, p, "auth", "can-i", "delete", "pods", "-n", "team", robot)
		expect(t, p, "", `^yes\n$`, "auth", "can-i", "get", "/version", robot)
		expect(t, p, "", `^yes\n$`, "auth", "can-i", "*", "*")
		list := p.Must(t, "", "auth", "can-i", "--list", "-n", "team", robot)
		for _, want := range []string{
			`^Resources +Non-Resource URLs +Resource Names +Verbs\n`,
			`(?m)^configmaps +\[\] +\[\] +\[get list watch\]$`,
			`(?m)^pods +\[\] +\[\] +\[get list watch\]$`,
			`(?m)^selfsubjectaccessreviews\.authorization\.k8s\.io +\[\] +\[\] +\[create\]$`,
			`(?m)^selfsubjectreviews\.authentication\.k8s\.io +\[\] +\[\] +\[create\]$`,
			`(?m)^ +\[/api\] +\[\] +\[get\]$`,
		} {
			if !regexp.MustCompile(want).MatchString(list) {
				t.Errorf("can-i --list lacks %s:\n%s", want, list)
			}
		}
	})
	t.Run("a token", func(t *testing.T) {
		token := strings.TrimSpace(p.Must(t, "", "create", "token", "robot", "-n", "team", "--duration=1h"))
		robot := p.WithToken(t, token)
		expect(t, robot, "", `Username +system:serviceaccount:team:robot\n`, "auth", "whoami")
		expectSoon(t, robot, `^NAME +DATA +AGE\nkube-root-ca\.crt +1 +\S+\n$`, "get", "configmaps", "-n", "team")
		expectFailure(t, robot, `^Error from server \(Forbidden\): secrets is forbidden: User "system:serviceaccount:team:robot" cannot list resource "secrets" in API group "" in the namespace "team"\n$`,
			"get", "secrets", "-n", "team")
		expectFailure(t, robot, `^Error from server \(Forbidden\): nodes is forbidden: User "system:serviceaccount:team:robot" cannot list resource "nodes" in API group "" at the cluster scope\n$`,
			"get", "nodes")
		expectFailure(t, robot, `users "root" is forbidden: User "system:serviceaccount:team:robot" cannot impersonate resource "users" in API group "" at the cluster scope`,
			"get", "configmaps", "-n", "team", "--as=root")
		expectFailure(t, p.WithToken(t, token+"x"), `^error: You must be logged in to the server \(Unauthorized\)\n$`, "get", "pods")
		// A token expires with its service account.
		p.Must(t, "", "delete", "serviceaccount", "robot", "-n", "team")
		plane.Eventually(t, "the token to expire", func(context.Context) error {
			res := robot.Kubectl(t, "", "get", "configmaps", "-n", "team")
			if !strings.Contains(res.Stderr, "You must be logged in to the server") {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
	})
	t.Run("a token in a Secret", func(t *testing.T) {
		p.Must(t, "", "create", "serviceaccount", "keeper", "-n", "team")
		expect(t, p, "---\n"+`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: kept, namespace: team, annotations: {kubernetes.io/service-account.name: keeper}}}`,
			`^secret/kept created\n$`, "apply", "-f", "-")
		expectSoon(t, p, `^team \S+ -----BEGIN CERTIFICATE-----\n`, "get", "secret", "kept", "-n", "team",
			"-o", `go-template={{.data.namespace | base64decode}} {{.data.token}} {{index .data "ca.crt" | base64decode}}`)
		token := p.Must(t, "", "get", "secret", "kept", "-n", "team", "-o", `go-template={{.data.token | base64decode}}`)
		keeper := p.WithToken(t, token)
		expect(t, keeper, "", `Username +system:serviceaccount:team:keeper\n`, "auth", "whoami")
		expectSoon(t, p, `^\d{4}-\d\d-\d\d$`, "get", "secret", "kept", "-n", "team", "-o", `jsonpath={.metadata.labels.kubernetes\.io/legacy-token-last-used}`)
		// The Secret and its token go with the service account.
		p.Must(t, "", "delete", "serviceaccount", "keeper", "-n", "team")
		p.Must(t, "", "wait", "--for=delete", "secret/kept", "-n", "team", "--timeout=2m")
		expectFailure(t, keeper, `^error: You must be logged in to the server \(Unauthorized\)\n$`, "get", "pods")
	})
	t.Run("a trust bundle", func(t *testing.T) {
		expectSoon(t, p, `^kubernetes\.io/kube-apiserver-serving -----BEGIN CERTIFICATE-----\n`, "get", "clustertrustbundles",
			"-o", `jsonpath={.items[*].spec.signerName} {.items[*].spec.trustBundle}`)
	})
	t.Run("privilege escalation", func(t *testing.T) {
		expect(t, p, "", `created\n$`, "create", "rolebinding", "jane-edits", "-n", "team", "--clusterrole=admin", "--user=jane")
		expectSoon(t, p, `^yes\n$`, "auth", "can-i", "create", "roles.rbac.authorization.k8s.io", "-n", "team", "--as=jane")
		expectFailure(t, p, `(?s)is forbidden: user "jane" \(groups=\["system:authenticated"\]\) is attempting to grant RBAC permissions not currently held:\n.*APIGroups:\[""\], Resources:\["nodes"\], Verbs:\["get"\]`,
			"create", "role", "too-much", "-n", "team", "--verb=get", "--resource=nodes", "--as=jane")
		expect(t, p, "", `created\n$`, "create", "role", "enough", "-n", "team", "--verb=get", "--resource=pods", "--as=jane")
	})
	t.Run("reconcile", func(t *testing.T) {
		expect(t, p, "---\n"+`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: team}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`,
			`^role\.rbac\.authorization\.k8s\.io/reader reconciled\n`, "auth", "reconcile", "-f", "-")
	})
}

// expectNo runs `kubectl auth can-i` and checks that it prints "no" and exits with code 1.
func expectNo(t *testing.T, p *plane.Plane, args ...string) {
	t.Helper()
	res := p.Kubectl(t, "", args...)
	if res.Code != 1 || !strings.HasPrefix(res.Stdout, "no") {
		t.Errorf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
}
