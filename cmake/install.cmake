# SPDX-License-Identifier: Apache-2.0
#
# Runs at installation: what the program itself prints (man page, completions), and the systemd unit
# with the path of the installed program. HF_PROGRAM, HF_SOURCE and HF_WORK come from CMakeLists.txt.
function(hf_print file)
  execute_process(COMMAND ${HF_PROGRAM} ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "${HF_PROGRAM} ${ARGN}: ${status}")
  endif()
endfunction()

file(MAKE_DIRECTORY ${HF_WORK})
hf_print(${HF_WORK}/holdfast.1 man)
hf_print(${HF_WORK}/holdfast completion bash)
hf_print(${HF_WORK}/_holdfast completion zsh)
file(READ ${HF_SOURCE}/packaging/holdfast.service unit)
string(REPLACE "/usr/bin/holdfast" "${CMAKE_INSTALL_PREFIX}/bin/holdfast" unit "${unit}")
file(WRITE ${HF_WORK}/holdfast.service "${unit}")

# Honours DESTDIR.
set(hf_share ${CMAKE_INSTALL_PREFIX}/share)
file(INSTALL ${HF_WORK}/holdfast.1 DESTINATION ${hf_share}/man/man1)
file(INSTALL ${HF_WORK}/holdfast DESTINATION ${hf_share}/bash-completion/completions)
file(INSTALL ${HF_WORK}/_holdfast DESTINATION ${hf_share}/zsh/site-functions)
file(INSTALL ${HF_WORK}/holdfast.service DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
