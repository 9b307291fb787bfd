package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectlCommand represents kubectl in the help. main calls runKubectl before the command line is
// parsed, since kubectl has its own flags, signals and exit codes.
func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl", Short: "kubectl itself, of the Kubernetes release whose API the plane serves",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { runKubectl(args) },
	}
}

// runKubectl runs kubectl's own main. It exits the process if kubectl fails.
func runKubectl(args []string) {
	// kubectl takes its arguments, and the name for its messages, from os.Args.
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
