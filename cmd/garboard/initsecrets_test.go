package main

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
)

func TestSecretStoreRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		where string
		cfg   deployment.Config
		want  string
	}{
		"no namespace":     {where: "garboard", want: "give NAMESPACE/PREFIX"},
		"a bad namespace":  {where: "Planes/garboard", want: "give NAMESPACE/PREFIX"},
		"no prefix":        {where: "planes/", want: "give NAMESPACE/PREFIX"},
		"a bad prefix":     {where: "planes/a/b", want: "give NAMESPACE/PREFIX"},
		"a directory, too": {where: "planes/garboard", cfg: deployment.Config{Dir: "here"}, want: "--out and --owner are about directories"},
		"an owner":         {where: "planes/garboard", cfg: deployment.Config{Owners: map[string]pki.Owner{"": {}}}, want: "--out and --owner are about directories"},
	} {
		t.Run(name, func(t *testing.T) {
			store := secretStore{where: c.where}
			if err := store.fill(t.Context(), c.cfg, t.Output()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
		})
	}
	if (&secretStore{}).wanted() {
		t.Error("wanted is true without the flag")
	}
}
