package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func bindingColumns(kind, role string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Role", role), columns.Age(),
		columns.Wide(columns.Text("Users", "Users in the "+kind)),
		columns.Wide(columns.Text("Groups", "Groups in the "+kind)),
		columns.Wide(columns.Text("ServiceAccounts", "ServiceAccounts in the "+kind)),
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
		b.GetName(), role.Kind + "/" + role.Name, columns.AgeOf(b, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
