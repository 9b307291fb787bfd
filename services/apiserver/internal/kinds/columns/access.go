package columns

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func roleBindings() layout {
	return of(bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]), func(b *rbacv1.RoleBinding, now time.Time) []any {
		return bindingCells(b, b.RoleRef, b.Subjects, now)
	})
}

func clusterRoleBindings() layout {
	return of(bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]), func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
		return bindingCells(b, b.RoleRef, b.Subjects, now)
	})
}

func bindingColumns(kind, role string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name(), text("Role", role), age(),
		wide(text("Users", "Users in the "+kind)),
		wide(text("Groups", "Groups in the "+kind)),
		wide(text("ServiceAccounts", "ServiceAccounts in the "+kind)),
	}
}

func bindingCells(b metav1.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		b.GetName(), role.Kind + "/" + role.Name, ageOf(b, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}

func certificateSigningRequests() layout {
	spec := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(), age(),
		text("SignerName", spec["signerName"]),
		text("Requestor", spec["request"]),
		text("RequestedDuration", spec["expirationSeconds"]),
		text("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
	}, func(c *certificatesv1.CertificateSigningRequest, now time.Time) []any {
		wanted := none
		if seconds := c.Spec.ExpirationSeconds; seconds != nil {
			wanted = duration.HumanDuration(time.Duration(*seconds) * time.Second)
		}
		return []any{c.Name, ageOf(c, now), orNone(c.Spec.SignerName), c.Spec.Username, wanted, requestCondition(c)}
	})
}

// requestCondition summarizes the state of a certificate signing request; a denial outweighs an
// approval.
func requestCondition(c *certificatesv1.CertificateSigningRequest) string {
	has := map[certificatesv1.RequestConditionType]bool{}
	for _, condition := range c.Status.Conditions {
		has[condition.Type] = true
	}
	state := "Pending"
	switch {
	case has[certificatesv1.CertificateDenied]:
		state = "Denied"
	case has[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(c.Status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}
