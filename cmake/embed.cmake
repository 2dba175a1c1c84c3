# Writes the bytes of the file FROM into the C file TO, as the array NAME, which a NUL ends.
# SPDX-License-Identifier: Apache-2.0
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
       bytes "${bytes}")
file(WRITE ${TO} "extern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${bytes}0};\n")
