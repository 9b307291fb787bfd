package jointoken_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/cmd/garboard/internal/jointoken"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

const aToken = "abcdef.0123456789abcdef"

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		aToken: "abcdef", "abcdef": "abcdef", "ABCDEF": "", "abcdef.": "", "abcdef.0123456789ABCDEF": "", "": "", "abcde": "",
		" " + aToken: "", aToken + "\n": "", aToken + "x": "", "abcdef\n": "", "аbcdef": "", // The last begins with a Cyrillic letter.
	} {
		id, err := jointoken.ParseID(text)
		if id != want || (err == nil) != (want != "") {
			t.Errorf("the ID of %q is %q, %v", text, id, err)
		}
		token, err := jointoken.Parse(text)
		if whole := text == aToken; (err == nil) != whole || whole && token.String() != text {
			t.Errorf("%q is parsed as %v, %v", text, token, err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells %q: %v", text, err)
		}
	}
}

// TestGenerate checks that tokens are well formed, differ, and use each letter about as often.
func TestGenerate(t *testing.T) {
	seen, letters := map[string]bool{}, map[rune]int{}
	const tokens = 2000
	for range tokens {
		token, err := jointoken.Generate()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jointoken.Parse(token.String()); err != nil {
			t.Fatal(err)
		}
		seen[token.Secret] = true
		for _, letter := range token.ID + token.Secret {
			letters[letter]++
		}
	}
	if len(seen) != tokens {
		t.Errorf("only %d of %d secrets differ", len(seen), tokens)
	}
	// 22 letters each: about 1,222 of each letter, with a standard deviation of 35.
	for letter, n := range letters {
		if n < 1000 || n > 1450 {
			t.Errorf("%q occurs %d times", letter, n)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name           string
		usages, groups []string
		// faults is the number of faults.
		faults int
	}{
		{"of a join", []string{"signing", "authentication"}, []string{jointoken.DefaultGroup}, 0},
		{"without usages", nil, nil, 0},
		{"a usage that does not exist", []string{"signing", "joining"}, nil, 1},
		{"groups of a token that does not authenticate", []string{"signing"}, []string{jointoken.DefaultGroup}, 1},
		{"a group that grants everything", []string{"authentication"}, []string{"system:masters"}, 1},
		{"a group that only contains the prefix", []string{"authentication"}, []string{"x:system:bootstrappers:a"}, 1},
		{"a group of two lines", []string{"authentication"}, []string{"system:bootstrappers:a\nsystem:masters"}, 1},
		{"a group with a comma", []string{"authentication"}, []string{"system:bootstrappers:a,system:masters"}, 1},
		{"everything", []string{"joining"}, []string{"system:masters", "system:bootstrappers:"}, 4},
	} {
		err := jointoken.Token{Usages: c.usages, Groups: c.groups}.Check()
		faults := 0
		if joined, ok := errors.AsType[interface {
			error
			Unwrap() []error
		}](err); ok {
			faults = len(joined.Unwrap())
		}
		if faults != c.faults {
			t.Errorf("%s: got %v, want %d faults", c.name, err, c.faults)
		}
	}
}

// TestPutAndList writes tokens and reads them back, among Secrets that are none.
func TestPutAndList(t *testing.T) {
	ctx := t.Context()
	bad := func(name string, data map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeBootstrapToken, StringData: data, Data: bytesOf(data),
		}
	}
	api := fake.New(scheme.New(),
		bad("bootstrap-token-bad001", map[string]string{"token-id": "bad002", "token-secret": "0123456789abcdef"}),
		bad("bootstrap-token-bad003", map[string]string{"token-id": "bad003", "token-secret": "short"}),
		bad("bootstrap-token-bad004", map[string]string{"token-id": "bad004", "token-secret": "0123456789abcdef", "expiration": "tomorrow"}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-opaque"}, Type: corev1.SecretTypeOpaque},
	)
	want := []jointoken.Token{
		{ID: "aaaaaa", Secret: "0123456789abcdef"},
		{ID: "bbbbbb", Secret: "0123456789abcdef", Description: "for n1", Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Usages: []string{"authentication", "signing"}, Groups: []string{jointoken.DefaultGroup, "system:bootstrappers:x"}},
	}
	for _, token := range slices.Backward(want) {
		if err := jointoken.Put(ctx, api, token); err != nil {
			t.Fatal(err)
		}
	}
	got, faults, err := jointoken.List(ctx, api)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the tokens are (-want +got), %v\n%s", err, diff)
	}
	if len(faults) != 3 || strings.Contains(fmt.Sprint(faults), "0123456789abcdef") {
		t.Errorf("the faults are %v", faults)
	}
	left := func(time.Time) string { return "1h" }
	rows := [][]string{
		{"aaaaaa.0123456789abcdef", "<forever>", "<never>", "<none>", "<none>", "<none>"},
		{"bbbbbb.0123456789abcdef", "1h", "2026-01-02T03:04:05Z", "authentication,signing", "for n1", jointoken.DefaultGroup + ",system:bootstrappers:x"},
	}
	for i, row := range rows {
		if diff := cmp.Diff(row, got[i].Row(left)); diff != "" || len(row) != len(jointoken.Columns()) {
			t.Error(diff)
		}
	}
	// The same token again changes nothing, a later expiry is written, and another secret refused.
	revision := api.Revision()
	if err := jointoken.Put(ctx, api, want[1]); err != nil || api.Revision() != revision {
		t.Errorf("the same token again: %v, and a write", err)
	}
	later := want[1]
	later.Expires = later.Expires.Add(time.Hour)
	if err := jointoken.Put(ctx, api, later); err != nil {
		t.Error(err)
	}
	if got, _, err := jointoken.List(ctx, api); err != nil || !got[1].Expires.Equal(later.Expires) {
		t.Errorf("after an extension the tokens are %v, %v", got, err)
	}
	other := want[1]
	other.Secret = "fedcba9876543210"
	if err := jointoken.Put(ctx, api, other); err == nil || strings.Contains(err.Error(), other.Secret) || strings.Contains(err.Error(), want[1].Secret) {
		t.Errorf("a token with another secret: %v", err)
	}
	if err := jointoken.Delete(ctx, api, "bbbbbb"); err != nil {
		t.Error(err)
	}
	if err := jointoken.Delete(ctx, api, "bbbbbb"); !apierrors.IsNotFound(err) {
		t.Errorf("deleting a token twice: %v", err)
	}
}

func bytesOf(data map[string]string) map[string][]byte {
	made := map[string][]byte{}
	for key, value := range data {
		made[key] = []byte(value)
	}
	return made
}

// TestConflicts: writes are repeated while others interfere, but not forever, and other errors are
// returned at once.
func TestConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("secrets"), "s", errors.New("modified"))
	for _, c := range []struct {
		name string
		err  error
		// fails is how many writes fail, and want the number of writes; -1 for all.
		fails, want int
		ok          bool
	}{
		{"no conflict", nil, 0, 1, true},
		{"some conflicts", conflict, 3, 4, true},
		{"nothing but conflicts", conflict, -1, 5, false},
		{"forbidden", apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("no")), -1, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := fake.New(scheme.New())
			writes := 0
			api.Fail(func(call client.Call) error {
				if !call.Writes() {
					return nil
				}
				if writes++; c.fails >= 0 && writes > c.fails {
					return nil
				}
				return c.err
			})
			token, err := jointoken.Parse(aToken)
			if err != nil {
				t.Fatal(err)
			}
			if err := jointoken.Put(t.Context(), api, token); (err == nil) != c.ok || writes != c.want {
				t.Errorf("got %v after %d writes", err, writes)
			}
		})
	}
}

// TestBind creates the bindings, completes existing ones, and keeps the subjects of others.
func TestBind(t *testing.T) {
	ctx := t.Context()
	const name = "kubeadm:kubelet-bootstrap"
	others := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers:mine"}
	api := fake.New(scheme.New(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{others},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
	})
	for range 2 {
		if err := jointoken.Bind(ctx, api); err != nil {
			t.Fatal(err)
		}
	}
	bindings, _, err := client.Of[*rbacv1.ClusterRoleBinding](api).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, b := range bindings {
		text := b.RoleRef.Name
		for _, s := range b.Subjects {
			text += " " + s.Kind + "=" + s.Name
		}
		got[b.Name] = text
	}
	want := map[string]string{
		name:                                 "system:node-bootstrapper Group=system:bootstrappers:mine Group=" + jointoken.DefaultGroup,
		"kubeadm:node-autoapprove-bootstrap": "system:certificates.k8s.io:certificatesigningrequests:nodeclient Group=" + jointoken.DefaultGroup,
		"kubeadm:node-autoapprove-certificate-rotation": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient Group=system:nodes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	api = fake.New(scheme.New(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})
	if err := jointoken.Bind(ctx, api); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("with a binding to another role: %v", err)
	}
}
