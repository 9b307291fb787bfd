package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectlCommand stands for kubectl in the help; main hands over to runKubectl before the
// command line is read, since kubectl has its own flags, signals and exit codes.
func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl", Short: "kubectl itself, of the release whose API this is",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { runKubectl(args) },
	}
}

// runKubectl is kubectl's own main. It ends the process when kubectl fails.
func runKubectl(args []string) {
	// kubectl takes its arguments, and the name for its messages, from os.Args.
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
