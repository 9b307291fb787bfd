package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/jointoken"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/scheme"
)

const aToken = "abcdef.0123456789abcdef"

// creating returns the arguments of `token create` without flags.
func creating() tokenCreate {
	return tokenCreate{ttl: jointoken.DefaultTTL, token: jointoken.Token{Usages: jointoken.Usages(), Groups: []string{jointoken.DefaultGroup}}}
}

func planeConfig() *rest.Config {
	return &rest.Config{Host: "https://plane.example:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("CA")}, BearerToken: "admin"}
}

func create(t *testing.T, api client.Interface, change func(*tokenCreate), args ...string) (string, error) {
	t.Helper()
	c := creating()
	if change != nil {
		change(&c)
	}
	var out bytes.Buffer
	err := c.run(t.Context(), &out, io.Discard, planeConfig(), api, args)
	return out.String(), err
}

func secretOf(t *testing.T, api client.Interface, id string) map[string]string {
	t.Helper()
	secret, err := client.Of[*corev1.Secret](api).Get(t.Context(), "kube-system", "bootstrap-token-"+id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("its type is %s", secret.Type)
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data
}

func newFake() *fake.Client {
	return fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
}

func TestTokenCreate(t *testing.T) {
	api := newFake()
	before := time.Now()
	out, err := create(t, api, func(c *tokenCreate) { c.token.Description = "for racks" }, aToken)
	if err != nil || out != aToken+"\n" {
		t.Fatalf("%q, %v", out, err)
	}
	data := secretOf(t, api, "abcdef")
	end, err := time.Parse(time.RFC3339, data["expiration"])
	if err != nil || end.Before(before.Add(time.Hour-2*time.Second)) || end.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("it ends on %s", data["expiration"])
	}
	for key, want := range map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "description": "for racks",
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
	} {
		if data[key] != want {
			t.Errorf("%s is %q, want %q", key, data[key], want)
		}
	}
	// Once more: the token no longer expires, and there is no second one.
	if _, err := create(t, api, func(c *tokenCreate) { c.ttl = 0 }, aToken); err != nil {
		t.Fatal(err)
	}
	if data := secretOf(t, api, "abcdef"); data["expiration"] != "" || data["description"] != "" {
		t.Errorf("it is %v", data)
	}
	api.ClearCalls()
	if _, err := create(t, api, func(c *tokenCreate) { c.ttl = 0 }, aToken); err != nil || len(api.Writes()) != 0 {
		t.Errorf("an unchanged Secret was written: %d (%v)", len(api.Writes()), err)
	}
	if _, err := create(t, api, nil, "abcdef.0123456789abcdeX"); err == nil || strings.Contains(err.Error(), "abcdeX") {
		t.Errorf("got %v", err)
	}
	if _, err := create(t, api, nil, "abcdef.fedcba9876543210"); err == nil || !strings.Contains(err.Error(), `a token with id "abcdef" already exists`) {
		t.Errorf("got %v", err)
	}
	made, err := create(t, api, nil)
	if err != nil || !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}\n$`).MatchString(made) {
		t.Errorf("%q (%v)", made, err)
	}
	if other, err := create(t, api, nil); err != nil || other == made {
		t.Errorf("%q was generated twice (%v)", other, err)
	}
}

func TestTokenFromAFile(t *testing.T) {
	api, file := newFake(), filepath.Join(t.TempDir(), "bootstrap-token")
	if err := os.WriteFile(file, []byte(aToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The output may end up in logs.
	out, err := create(t, api, func(c *tokenCreate) { c.file = file })
	if id, secret, _ := strings.Cut(aToken, "."); err != nil || !strings.Contains(out, id) || strings.Contains(out, secret) {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := create(t, api, func(c *tokenCreate) { c.file = file }, aToken); err == nil {
		t.Error("a token and a file were accepted together")
	}
	if _, err := create(t, api, func(c *tokenCreate) { c.file = file + "x" }); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*tokenCreate){
		`invalid bootstrap token usage string: "sing"`:     func(c *tokenCreate) { c.token.Usages = []string{"sing"}; c.token.Groups = nil },
		`bootstrap group "system:masters" is invalid`:      func(c *tokenCreate) { c.token.Groups = []string{"system:masters"} },
		"token groups cannot be specified unless --usages": func(c *tokenCreate) { c.token.Usages = []string{"signing"} },
		"--ttl -1s": func(c *tokenCreate) { c.ttl = -time.Second },
	} {
		api := newFake()
		if _, err := create(t, api, change); err == nil || !strings.Contains(err.Error(), want) || len(api.Writes()) > 0 {
			t.Errorf("got %v with %d writes, want %q", err, len(api.Writes()), want)
		}
	}
}

// TestNodesMayJoin: the bindings are kubeadm's, and subjects added by others stay.
func TestNodesMayJoin(t *testing.T) {
	api := newFake()
	api.Load(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:kubelet-bootstrap"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "others"}},
	})
	if _, err := create(t, api, nil); err != nil {
		t.Fatal(err)
	}
	const group = "system:bootstrappers:kubeadm:default-node-token"
	for name, want := range map[string]string{
		"kubeadm:kubelet-bootstrap":                     "system:node-bootstrapper others " + group,
		"kubeadm:node-autoapprove-bootstrap":            "system:certificates.k8s.io:certificatesigningrequests:nodeclient " + group,
		"kubeadm:node-autoapprove-certificate-rotation": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient system:nodes",
	} {
		binding, err := client.Of[*rbacv1.ClusterRoleBinding](api).Get(t.Context(), "", name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := binding.RoleRef.Name
		for _, subject := range binding.Subjects {
			got += " " + subject.Name
			if subject.Kind != "Group" || subject.APIGroup != rbacv1.GroupName {
				t.Errorf("%s has %+v", name, subject)
			}
		}
		if got != want || binding.RoleRef.Kind != "ClusterRole" {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	api.Load(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-bootstrap"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})
	if _, err := create(t, api, nil); err == nil || !strings.Contains(err.Error(), "cluster-admin: delete it") {
		t.Errorf("got %v", err)
	}
}

// TestSomebodyElseWrites: another writer interferes between reading and writing.
func TestSomebodyElseWrites(t *testing.T) {
	api := newFake()
	refusals := 0
	api.Fail(func(call client.Call) error {
		if (call.Verb == "create" || call.Verb == "update") && refusals < 3 {
			refusals++
			return apierrors.NewConflict(corev1.Resource("secrets"), call.Name, nil)
		}
		return nil
	})
	if _, err := create(t, api, nil); err != nil {
		t.Error(err)
	}
}

func TestJoinCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bootstrap-kubeconfig")
	out, err := create(t, newFake(), func(c *tokenCreate) { c.printJoin, c.bootstrap = true, file }, aToken)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`^umask 077 && echo (\S+) \| base64 -d > bootstrap-kubeconfig && nodeagent --bootstrap-kubeconfig bootstrap-kubeconfig --nats-servers (\S+)\n$`).FindStringSubmatch(out)
	if found == nil || found[2] != "tls://plane.example:4222" {
		t.Fatalf("it says %q", out)
	}
	text, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(text, written) {
		t.Errorf("the file is %s (%v)", written, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v (%v)", info.Mode(), err)
	}
	got, err := pki.ParseKubeconfig(text)
	if err != nil || got.Server != "https://plane.example:6443" || string(got.CA) != "CA" || got.Token != aToken || len(got.Cert) > 0 {
		t.Errorf("it is %+v (%v)", got, err)
	}
	out, err = create(t, newFake(), func(c *tokenCreate) {
		c.printJoin, c.server, c.natsServers = true, "https://10.0.0.1:1", []string{"tls://a:1", "tls://b:2"}
	})
	if err != nil || !strings.HasSuffix(out, " --nats-servers tls://a:1,tls://b:2\n") {
		t.Errorf("it says %q (%v)", out, err)
	}
}

func TestTokenListAndDelete(t *testing.T) {
	api := newFake()
	for _, c := range []func(*tokenCreate){
		func(c *tokenCreate) { c.token.Description, c.ttl = "for racks", 0 },
		func(c *tokenCreate) { c.token.Usages, c.token.Groups, c.ttl = []string{"signing"}, nil, 90*time.Minute },
	} {
		token := aToken
		if len(api.Writes()) > 0 {
			token = "zzzzzz.0123456789abcdef"
		}
		if _, err := create(t, api, c, token); err != nil {
			t.Fatal(err)
		}
	}
	api.Load(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"}, Type: corev1.SecretTypeOpaque},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "odd"}, Type: corev1.SecretTypeBootstrapToken},
	)
	list := func() (lines []string, problems string) {
		t.Helper()
		var out, faults bytes.Buffer
		if err := listTokens(t.Context(), &out, &faults, api); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n"), faults.String()
	}
	lines, problems := list()
	for i, want := range []string{
		`^TOKEN +TTL +EXPIRES +USAGES +DESCRIPTION +EXTRA GROUPS$`,
		`^abcdef\.0123456789abcdef +<forever> +<never> +authentication,signing +for racks +system:bootstrappers:kubeadm:default-node-token$`,
		`^zzzzzz\.0123456789abcdef +(1h|90m|89m) +\S+Z +signing +<none> +<none>$`,
	} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of %q, want %s", i, lines, want)
		}
	}
	if len(lines) != 3 || !strings.Contains(problems, "kube-system/odd") || strings.Contains(problems, "other") {
		t.Errorf("%d lines, and %q", len(lines), problems)
	}
	var out bytes.Buffer
	if err := deleteTokens(t.Context(), &out, api, []string{"abcdef", "zzzzzz.0123456789abcdef"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "bootstrap token \"abcdef\" deleted\nbootstrap token \"zzzzzz\" deleted\n" {
		t.Errorf("it says %q", out.String())
	}
	if lines, _ := list(); len(lines) != 1 {
		t.Errorf("there are %q", lines)
	}
	for _, text := range []string{"abcdef", "ABCDEF", "abcdef.x"} {
		if err := deleteTokens(t.Context(), &out, api, []string{text}); err == nil {
			t.Errorf("%s is deleted", text)
		}
	}
}

func TestGenerate(t *testing.T) {
	seen := map[rune]int{}
	for range 200 {
		token, err := jointoken.Generate()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jointoken.Parse(token.String()); err != nil {
			t.Fatal(err)
		}
		for _, c := range token.ID + token.Secret {
			seen[c]++
		}
	}
	if len(seen) != 36 {
		t.Errorf("only %d letters and digits are used", len(seen))
	}
	if slices.Contains(jointoken.Usages(), "") {
		t.Error("there is a usage without a name")
	}
}
